// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// Files is RLIMIT_NOFILE before the Go runtime, or zero.
var Files unix.Rlimit

// NoFile returns the RLIMIT_NOFILE that the process was started with. Package syscall raises the soft limit
// in its init, keeps the old value private, and restores it in Exec; a call that fails reveals it. Afterwards
// NoFile raises the soft limit again, for our own descriptors. Call it once, before any child is started.
func NoFile() (unix.Rlimit, error) {
	was := Files
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
