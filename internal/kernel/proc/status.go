// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"bytes"
	"errors"
	"fmt"
)

// Status contains fields of /proc/PID/status. Without the line in this kernel, a field is zero.
type Status struct {
	Tgid      int // the process; differs from the argument if that is a thread
	TracerPid int
	UID       [4]int // real, effective, saved, file system
	NSpid     []int  // the process in our pid namespace, then in each below; needs CONFIG_PID_NS

	SigBlk, SigIgn uint64 // blocked and ignored signals: signal n is bit n-1
}

// ParseStatus parses the contents of /proc/PID/status. The kernel escapes newlines in the name, so a process
// cannot forge a line.
func ParseStatus(b []byte) (Status, error) {
	var s Status
	var n numbers
	for line := range bytes.Lines(b) {
		key, value, found := bytes.Cut(bytes.TrimSuffix(line, []byte("\n")), []byte(":"))
		if found {
			s.set(&n, string(key), bytes.Fields(value))
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

func (s *Status) set(n *numbers, key string, values [][]byte) {
	if len(values) == 0 {
		return
	}
	switch key {
	case "Tgid":
		s.Tgid = n.int(values[0])
	case "TracerPid":
		s.TracerPid = n.int(values[0])
	case "Uid":
		for i := range min(len(values), len(s.UID)) {
			s.UID[i] = int(n.unsigned(values[i], 10)) // (uid_t)-1 too
		}
		if len(values) != len(s.UID) {
			n.err = errors.New("not four uids")
		}
	case "NSpid":
		for _, value := range values {
			s.NSpid = append(s.NSpid, n.int(value))
		}
	case "SigBlk":
		s.SigBlk = n.unsigned(values[0], 16)
	case "SigIgn":
		s.SigIgn = n.unsigned(values[0], 16)
	}
}
