// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package raw is what may be done between a fork and an exec, or in a copy that never executes anything: system calls alone. Its functions
// neither allocate nor grow the stack.
package raw

import (
	"errors"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The three hooks of package syscall around a fork. They are on the list of names
// that the linker lets other modules use.
//
//go:linkname BeforeFork syscall.runtime_BeforeFork
func BeforeFork()

//go:linkname AfterFork syscall.runtime_AfterFork
func AfterFork()

//go:linkname afterForkInChild syscall.runtime_AfterForkInChild
func afterForkInChild()

// caught are signals that have a handler which the runtime does not know of.
var caught uint64

// Caught says that one has.
func Caught(sig syscall.Signal) { caught |= 1 << (sig - 1) }

// AfterForkInChild gives all signals that are caught their default action, and lets those in that the caller does not block.
//
//go:nosplit
//go:norace
func AfterForkInChild() {
	action := [4]uintptr{} // SIG_DFL
	for sig := uintptr(1); caught != 0 && sig <= 64; sig++ {
		if caught&(1<<(sig-1)) != 0 {
			_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&action)), 0, 8, 0, 0)
		}
	}
	afterForkInChild()
}

// CloneArgs is struct clone_args of clone3(2) up to cgroup (Linux 5.7).
type CloneArgs struct {
	Flags, PIDFD, ChildTID, ParentTID, ExitSignal uint64
	Stack, StackSize, TLS, SetTID, SetTIDSize     uint64
	Cgroup                                        uint64
}

// Refused tells whether clone3 into a cgroup can't be had here: seccomp answers ENOSYS
// or EPERM, a kernel before 5.7 E2BIG. Then the child is forked the old way and joins
// by itself, which is as free of races because it does so before it runs anything.
//
//go:nosplit
//go:norace
func Refused(errno uintptr) bool {
	switch syscall.Errno(errno) {
	case syscall.ENOSYS, syscall.EPERM, syscall.E2BIG, syscall.EINVAL:
		return true
	}
	return false
}

// Group is a directory of a process's group.
type Group interface {
	FD() int
	// OpenProcs opens its cgroup.procs for writing.
	OpenProcs() (int, error)
}

//go:nosplit
//go:norace
func Exit(status uintptr) {
	for {
		_, _, _ = syscall.RawSyscall(syscall.SYS_EXIT_GROUP, status, 0, 0)
	}
}

// Reap waits for a child.
func Reap(pid int) {
	for {
		_, err := unix.Wait4(pid, nil, 0, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}
