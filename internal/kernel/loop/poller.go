// SPDX-License-Identifier: Apache-2.0

//go:build linux

package loop

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// readyPoller makes the runtime set up what its files and timers need: an eventfd in an epoll set. The
// runtime would do so with the first of them, perhaps when a server runs, and aborts the process where
// descriptors are used up.
func readyPoller() error {
	event, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("create eventfd: %w", err)
	}
	set, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	_ = unix.Close(event) // both are for the runtime
	if err != nil {
		return fmt.Errorf("create epoll set: %w", err)
	}
	_ = unix.Close(set)
	time.AfterFunc(time.Hour, func() {}).Stop()
	return nil
}
