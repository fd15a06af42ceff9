// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// filesBefore is RLIMIT_NOFILE before the Go runtime, or zero.
var filesBefore unix.Rlimit

// readNoFile returns the RLIMIT_NOFILE that the process was started with. Package syscall raises the soft
// limit in its init, keeps the old value private, and restores it in Exec; a call that fails reveals it.
// Afterwards readNoFile raises the soft limit again, for our own descriptors. Call it once, before any child
// is started.
func readNoFile() (unix.Rlimit, error) {
	was := filesBefore
	if was.Max == 0 {
		_ = syscall.Exec("", []string{""}, nil) // always ENOENT
		if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, nil, &was); err != nil {
			return was, fmt.Errorf("read RLIMIT_NOFILE: %w", err)
		}
	}
	raised := unix.Rlimit{Cur: was.Max, Max: was.Max}
	_ = unix.Prlimit(0, unix.RLIMIT_NOFILE, &raised, nil) // the old one will do
	return was, nil
}
