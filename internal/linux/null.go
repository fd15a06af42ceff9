// SPDX-License-Identifier: Apache-2.0

//go:build linux

package linux

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// ReplaceByNull gives the descriptors back without freeing their numbers, which the
// next open would take.
func ReplaceByNull(fds ...int) error {
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open /dev/null: %w", err)
	}
	defer unix.Close(null)
	for _, fd := range fds {
		if err := unix.Dup3(null, fd, unix.O_CLOEXEC); err != nil {
			return fmt.Errorf("replace descriptor %d: %w", fd, err)
		}
	}
	return nil
}
