// SPDX-License-Identifier: Apache-2.0

//go:build linux && !amd64 && !arm64

package spawn

import "syscall"

// vforkFlags: without a line of assembly the child needs an address space of its own.
const vforkFlags = 0

//go:nosplit
//go:norace
func vfork(trap, a1, a2 uintptr) (pid, errno uintptr) {
	p, _, e := syscall.RawSyscall6(trap, a1, a2, 0, 0, 0, 0)
	return p, uintptr(e)
}
