// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"bytes"
	"errors"
	"fmt"
)

// Status is what /proc/PID/status says, as far as it is used. A line that this
// kernel does not write leaves its zero.
type Status struct {
	Name      string // the comm, as in [Stat]
	State     byte   // as in [Stat]
	Tgid      int    // the process; differs from the pid asked for when that was a thread
	PPid      int    // 0 where the parent lives in another pid namespace
	TracerPid int
	UID, GID  [4]int // real, effective, saved, file system
	Threads   int
	NSpid     []int // this process in our pid namespace, then in each below; needs CONFIG_PID_NS

	// Sets of signals: signal n is bit n-1. Blocked, ignored, caught; pending
	// for the thread, pending for the process.
	SigBlk, SigIgn, SigCgt, SigPnd, ShdPnd uint64
}

// ParseStatus parses the contents of /proc/PID/status. The kernel escapes
// newlines in the name, so no process can forge a line.
func ParseStatus(b []byte) (Status, error) {
	var s Status
	var n numbers
	for line := range bytes.Lines(b) {
		key, value, found := bytes.Cut(bytes.TrimSuffix(line, []byte("\n")), []byte(":"))
		if found {
			s.set(&n, string(key), bytes.TrimPrefix(value, []byte("\t")))
		}
	}
	if n.err == nil && (s.State == 0 || s.Tgid == 0) {
		n.err = errors.New("no State or no Tgid")
	}
	if n.err != nil {
		return Status{}, fmt.Errorf("parse status: %w", n.err)
	}
	return s, nil
}

func (s *Status) set(n *numbers, key string, value []byte) {
	switch key {
	case "Name":
		s.Name = unescapeName(value)
	case "State":
		s.State = n.state(key, value)
	case "Tgid":
		s.Tgid = n.int(key, value)
	case "PPid":
		s.PPid = n.int(key, value)
	case "TracerPid":
		s.TracerPid = n.int(key, value)
	case "Threads":
		s.Threads = n.int(key, value)
	case "Uid":
		s.UID = fourIDs(n, key, value)
	case "Gid":
		s.GID = fourIDs(n, key, value)
	case "NSpid":
		s.NSpid = ints(n, key, value)
	default:
		s.setSignals(n, key, value)
	}
}

func (s *Status) setSignals(n *numbers, key string, value []byte) {
	switch key {
	case "SigBlk":
		s.SigBlk = n.signals(key, value)
	case "SigIgn":
		s.SigIgn = n.signals(key, value)
	case "SigCgt":
		s.SigCgt = n.signals(key, value)
	case "SigPnd":
		s.SigPnd = n.signals(key, value)
	case "ShdPnd":
		s.ShdPnd = n.signals(key, value)
	}
}

func fourIDs(n *numbers, key string, value []byte) (ids [4]int) {
	f := bytes.Fields(value)
	if len(f) != len(ids) {
		n.fail(key, value, errors.New("not four numbers"))
		return ids
	}
	for i := range ids {
		ids[i] = n.id(key, f[i])
	}
	return ids
}

func ints(n *numbers, key string, value []byte) (out []int) {
	for f := range bytes.FieldsSeq(value) {
		out = append(out, n.int(key, f))
	}
	return out
}

// unescapeName undoes the only two escapes of the Name line, \n and \\.
// (In /proc/PID/stat and comm the same name is not escaped at all.)
func unescapeName(b []byte) string {
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); i++ {
		c := b[i]
		if c == '\\' && i+1 < len(b) {
			switch b[i+1] {
			case '\\':
				i++
			case 'n':
				c = '\n'
				i++
			}
		}
		out = append(out, c)
	}
	return string(out)
}
