// SPDX-License-Identifier: Apache-2.0

//go:build linux && !cgo

package guard

// copiesAll: a main process that is forked before its start needs a copy of all memory, which takes time.
const copiesAll = false
