// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"bytes"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// HoldsFlock tells whether a process has a descriptor whose open file description holds a flock(2)
// on the file with that device and inode number (/proc/PID/fdinfo, Linux 3.8). To look takes the
// right to ptrace.
func HoldsFlock(pid int, dev, ino uint64) (bool, error) {
	dir := pidPath(pid) + "/fdinfo"
	fds, err := numbersIn(dir)
	if err != nil {
		return false, markGone(pid, err)
	}
	for _, fd := range fds {
		b, err := read(fmt.Sprintf("%s/%d", dir, fd), noLimit)
		if errors.Is(err, unix.ENOENT) {
			continue // it has been closed
		}
		if err != nil {
			return false, markGone(pid, err)
		}
		if hasFlock(b, dev, ino) {
			return true, nil
		}
	}
	return false, nil
}

// hasFlock looks for a line such as "lock:	1: FLOCK  ADVISORY  WRITE 1234 00:1a:5678 0 EOF" in the
// contents of /proc/PID/fdinfo/FD.
func hasFlock(fdinfo []byte, dev, ino uint64) bool {
	file := fmt.Appendf(nil, "%02x:%02x:%d", unix.Major(dev), unix.Minor(dev), ino)
	for line := range bytes.Lines(fdinfo) {
		rest, found := bytes.CutPrefix(line, []byte("lock:"))
		words := bytes.Fields(rest)
		if found && len(words) > 5 && string(words[1]) == "FLOCK" && bytes.Equal(words[5], file) {
			return true
		}
	}
	return false
}
