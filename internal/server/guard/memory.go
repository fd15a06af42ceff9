// SPDX-License-Identifier: Apache-2.0

//go:build linux && !cgo

package guard

// copiesAll: a child that is forked needs a copy of all memory, which takes time.
const copiesAll = false
