// SPDX-License-Identifier: Apache-2.0

//go:build linux && cgo

package guard

// copiesAll: the kernel writes to memory that the C library has registered (rseq(2)). A child of this process
// that is forked without it is killed. A guard that is no child is forked by one that borrows the memory, and
// has no such registration.
const copiesAll = true
