// SPDX-License-Identifier: Apache-2.0

//go:build linux

package linux

import (
	"time"

	"golang.org/x/sys/unix"
)

// AwaitEnd waits for a socket's other end to be closed (POLLHUP) or the process of a
// pidfd to end (POLLIN, POLLHUP when it has been reaped), for a bounded time.
func AwaitEnd(fd int, events int16, within time.Duration) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: events}}
	for deadline := time.Now().Add(within); ; {
		n, err := unix.Poll(fds, int(max(time.Until(deadline), 0).Milliseconds()))
		if err != unix.EINTR {
			return n > 0
		}
	}
}
