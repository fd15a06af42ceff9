// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package linux waits for descriptors, and has the signals that the launcher catches.
package linux

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// PollUntil blocks until one of fds is ready, which shows in its Revents, or until the
// deadline; the zero Time means none. Negative descriptors are passed over (poll(2)).
func PollUntil(deadline time.Time, fds ...unix.PollFd) ([]unix.PollFd, error) {
	for {
		var timeout *unix.Timespec
		if !deadline.IsZero() {
			left := unix.NsecToTimespec(max(time.Until(deadline), 0).Nanoseconds())
			timeout = &left
		}
		_, err := unix.Ppoll(fds, timeout, nil)
		switch err {
		case nil:
			return fds, nil
		case unix.EINTR:
		default:
			return fds, fmt.Errorf("poll: %w", err)
		}
	}
}

// AwaitEnd waits for a socket's other end to be closed (POLLHUP) or the process of a
// pidfd to end (POLLIN, POLLHUP when it has been reaped), for a bounded time.
func AwaitEnd(fd int, events int16, within time.Duration) bool {
	fds, err := PollUntil(time.Now().Add(within), unix.PollFd{Fd: int32(fd), Events: events})
	return err == nil && fds[0].Revents != 0
}

// Ended reports whether the process behind a pidfd has ended. It is false for -1, which means no process.
func Ended(pidfd int) bool { return AwaitEnd(pidfd, unix.POLLIN, 0) }
