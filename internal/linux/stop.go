// SPDX-License-Identifier: Apache-2.0

//go:build linux

package linux

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// StopBy stops this process by a signal, which it may have caught, and returns when somebody
// has continued it; at once where nobody could.
func StopBy(sig unix.Signal, caught bool) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if caught {
		defer withDefault(sig)()
	}
	_ = unix.Tgkill(unix.Getpid(), unix.Gettid(), sig) // to this thread: it arrives before the call returns
}

// withDefault gives a signal its default action until restore is called. signal.Reset does not:
// it leaves the runtime's handler, which passes over these signals.
func withDefault(sig unix.Signal) (restore func()) {
	var was, act [4]uintptr // struct sigaction of the kernel; all zero: SIG_DFL
	set := func(to, old *[4]uintptr) {
		_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(to)), uintptr(unsafe.Pointer(old)), 8, 0, 0)
	}
	set(&act, &was)
	return func() { set(&was, nil) }
}
