// SPDX-License-Identifier: Apache-2.0

// Package linux waits for descriptors, and has the signals that the launcher catches.
package linux

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// AwaitUntil blocks until fd is ready, or until the deadline; the zero Time means none. A negative fd is
// never ready (poll(2)).
func AwaitUntil(deadline time.Time, fd int, events int16) (ready bool) {
	for {
		var timeout *unix.Timespec
		if !deadline.IsZero() {
			left := unix.NsecToTimespec(max(time.Until(deadline), 0).Nanoseconds())
			timeout = &left
		}
		n, err := unix.Ppoll([]unix.PollFd{{Fd: int32(fd), Events: events}}, timeout, nil)
		if err != unix.EINTR {
			return n > 0
		}
	}
}

// AwaitWithin is AwaitUntil with a duration. A pidfd has POLLIN when its process has ended, and POLLHUP when
// that was reaped. A closed other end is POLLHUP, which needs no events.
func AwaitWithin(fd int, events int16, within time.Duration) bool {
	return AwaitUntil(time.Now().Add(within), fd, events)
}

// Ended reports whether the process behind a pidfd has ended. It is false for -1, which means no process.
func Ended(pidfd int) bool { return AwaitWithin(pidfd, unix.POLLIN, 0) }

// Ending are the signals by which a client ends a server.
var Ending = []unix.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT}

// Action is the kernel's struct sigaction; zero is SIG_DFL.
type Action struct{ Handler, Flags, Restorer, Mask uintptr }

const ignored = 1 // SIG_IGN

// ActionOf is zero for SIGKILL and SIGSTOP.
func ActionOf(sig unix.Signal) (a Action) {
	setAction(sig, nil, &a)
	return a
}

// Ignored reports whether the signal is ignored.
func (a *Action) Ignored() bool { return a.Handler == ignored }

// Set does nothing for SIGKILL and SIGSTOP.
func (a *Action) Set(sig unix.Signal) { setAction(sig, a, nil) }

func setAction(sig unix.Signal, to, old *Action) {
	_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig),
		uintptr(unsafe.Pointer(to)), uintptr(unsafe.Pointer(old)), 8, 0, 0)
}
