// SPDX-License-Identifier: Apache-2.0

//go:build linux

package signals

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// StopBy stops this process by a signal, which it may have caught, and returns when the process is
// continued. In an orphaned process group the kernel ignores the JobControl signals: it returns at
// once. A signal that comes after SIGCONT and before this thread has run again stops the process
// once more, caught or not: a stop that the shell should see as one by sig needs its default action.
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
	var was, act sigaction // all zero: SIG_DFL
	setAction(sig, &act, &was)
	return func() { setAction(sig, &was, nil) }
}

// Ignores reports whether this process ignores a signal. signal.Ignored can do so only for SIGHUP and SIGINT.
func Ignores(sig unix.Signal) bool {
	var act sigaction
	setAction(sig, nil, &act)
	return act.handler == 1 // SIG_IGN
}

// setAction is rt_sigaction(2), which can't fail for a signal that may be caught.
func setAction(sig unix.Signal, to, old *sigaction) {
	_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig),
		uintptr(unsafe.Pointer(to)), uintptr(unsafe.Pointer(old)), 8, 0, 0)
}
