// SPDX-License-Identifier: Apache-2.0

//go:build linux && cgo

package guard

// copiesAll: the kernel writes to memory that the C library has registered (rseq(2)). A process that is
// forked without it is killed.
const copiesAll = true
