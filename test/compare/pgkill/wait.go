// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"

	"golang.org/x/sys/unix"
)

// awaitExit waits until a child has exited, and leaves it to be waited for.
func awaitExit(pid int) {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}
