// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"bytes"
	"fmt"

	"golang.org/x/sys/unix"
)

// HoldsFlock reports whether a process has taken a flock(2) that still exists on the file with that device
// and inode number (/proc/locks).
func HoldsFlock(pid int, dev, ino uint64) (bool, error) {
	b, err := read("/proc/locks", NoLimit)
	if err != nil {
		return false, err
	}
	return hasFlock(b, pid, dev, ino), nil
}

// hasFlock looks for a line such as "1: FLOCK  ADVISORY  WRITE 1234 00:1a:5678 0 EOF".
func hasFlock(locks []byte, pid int, dev, ino uint64) bool {
	lock := fmt.Appendf(nil, "WRITE %d %02x:%02x:%d ", pid, unix.Major(dev), unix.Minor(dev), ino)
	for line := range bytes.Lines(locks) {
		if bytes.Contains(line, []byte(": FLOCK ")) && bytes.Contains(line, lock) {
			return true
		}
	}
	return false
}
