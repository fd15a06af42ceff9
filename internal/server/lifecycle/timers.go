// SPDX-License-Identifier: Apache-2.0

//go:build linux

package lifecycle

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// ReadyTimers makes the runtime set up what its timers need: an eventfd in an epoll set. It
// would do so with the first timer, perhaps when a server runs, and aborts the process when
// it can't. So it has to do it now, and we try first whether it can.
func ReadyTimers() error {
	if err := tryTimers(); err != nil {
		return err
	}
	time.AfterFunc(time.Hour, func() {}).Stop() // a timer with a channel waits for somebody to receive
	return nil
}

// tryTimers does what the runtime does, and gives the descriptors back for it.
func tryTimers() error {
	event, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("create eventfd: %w", err)
	}
	defer unix.Close(event)
	set, err := NewLoop()
	if err != nil {
		return err
	}
	defer unix.Close(set.epoll)
	return set.Add(event, 0)
}
