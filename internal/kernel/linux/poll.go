// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package linux waits for descriptors.
package linux

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// PollUntil blocks until one of fds is ready, which shows in its Revents, or until the
// deadline; the zero Time means none. Negative descriptors are passed over (poll(2)).
// The deadline is a timer's descriptor, not poll's own timeout: that does not run while
// the process is stopped, and whoever stops us again and again would put it off for
// ever.
func PollUntil(deadline time.Time, fds ...unix.PollFd) ([]unix.PollFd, error) {
	timer, err := alarm(deadline)
	if err != nil {
		return fds, err
	}
	if timer >= 0 {
		defer unix.Close(timer)
	}
	all := append(fds[:len(fds):len(fds)], unix.PollFd{Fd: int32(timer), Events: unix.POLLIN})
	for {
		_, err := unix.Poll(all, -1)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return fds, fmt.Errorf("poll: %w", err)
		}
		return all[:len(fds)], nil
	}
}

// Ended tells whether the process behind a pidfd has ended. -1 is none, which has not.
func Ended(pidfd int) bool {
	fds := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n > 0
}

// alarm returns a timerfd that becomes readable at the deadline, -1 for none.
func alarm(deadline time.Time) (int, error) {
	if deadline.IsZero() {
		return -1, nil
	}
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("create timer: %w", err)
	}
	left := max(time.Until(deadline), 1) // 0 would disarm it
	once := unix.ItimerSpec{Value: unix.NsecToTimespec(left.Nanoseconds())}
	if err := unix.TimerfdSettime(fd, 0, &once, nil); err != nil {
		_ = unix.Close(fd)
		return -1, fmt.Errorf("set timer: %w", err)
	}
	return fd, nil
}
