// SPDX-License-Identifier: Apache-2.0

//go:build linux && cgo && !race

package main

// With cgo the C library starts the Go runtime, and there is no code of ours before it, as each start needs.
// So such a build ends here, and its error says what to set. The race detector, which needs cgo, tests the
// functions of this package alone.
var _ = build_mcpscope_with_CGO_ENABLED_0
