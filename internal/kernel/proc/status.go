// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"bytes"
	"errors"
	"fmt"
)

// Status contains fields of /proc/PID/status.
type Status struct {
	Tgid int    // the process; differs from the argument if that is a thread
	UID  [4]int // real, effective, saved, file system
}

// ParseStatus parses the contents of /proc/PID/status. The kernel escapes newlines in the name, so a process
// cannot forge a line.
func ParseStatus(b []byte) (Status, error) {
	var s Status
	var n numbers
	for line := range bytes.Lines(b) {
		key, value, _ := bytes.Cut(line, []byte(":"))
		values := bytes.Fields(value)
		switch {
		case string(key) == "Tgid" && len(values) > 0:
			s.Tgid = n.int(values[0])
		case string(key) == "Uid" && len(values) == len(s.UID):
			for i, text := range values {
				s.UID[i] = int(n.unsigned(text)) // (uid_t)-1 too
			}
		case string(key) == "Uid":
			n.err = errors.New("not four uids")
		}
	}
	if n.err == nil && s.Tgid == 0 {
		n.err = errors.New("no Tgid")
	}
	if n.err != nil {
		return Status{}, fmt.Errorf("parse status: %w", n.err)
	}
	return s, nil
}
