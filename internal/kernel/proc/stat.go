// SPDX-License-Identifier: Apache-2.0

//go:build linux

package proc

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"strconv"
)

// Stat contains fields of /proc/PID/stat.
type Stat struct {
	PID  int
	Comm string // any bytes but NUL, at most 15 (63 for a kernel thread); the process chooses them
	// State is R, S, D, T (stopped), t (traced), Z, X, I … With Z and Threads above 1, the first thread has
	// exited and others run.
	State     byte
	PPID      int    // 0 where the parent lives in another pid namespace
	UTime     uint64 // clock ticks (100 a second) of all threads, ended ones too
	STime     uint64 // like UTime
	CUTime    uint64 // like UTime, of reaped children
	CSTime    uint64 // like CUTime
	StartTime uint64 // clock ticks from boot to the start; with PID, it identifies the process
	Threads   int
}

// Stopped reports whether the first thread is stopped by a signal or a tracer.
func (s Stat) Stopped() bool { return s.State == 'T' || s.State == 't' }

// ReadStat reads /proc/PID/stat.
func ReadStat(pid int) (Stat, error) {
	b, err := readPID(pid, "stat")
	if err != nil {
		return Stat{}, err
	}
	return ParseStat(b)
}

// ParseStat parses the contents of /proc/PID/stat.
//
// The comm is not escaped, and may contain parentheses, blanks and newlines. No field after it contains a
// ')', so it ends at the last one.
func ParseStat(b []byte) (Stat, error) {
	pid, comm, rest, err := cutComm(b)
	if err != nil {
		return Stat{}, fmt.Errorf("parse stat: %w", err)
	}
	f := bytes.Fields(rest) // from the state, the third field in proc(5)
	if len(f) < 20 {
		return Stat{}, fmt.Errorf("parse stat: %d fields behind the comm in %q", len(f), clip(rest))
	}
	var n numbers
	s := Stat{
		PID:       n.int(pid),
		Comm:      string(comm),
		State:     f[0][0],
		PPID:      n.int(f[1]),
		UTime:     n.unsigned(f[11]),
		STime:     n.unsigned(f[12]),
		CUTime:    n.unsigned(f[13]),
		CSTime:    n.unsigned(f[14]),
		Threads:   n.int(f[17]),
		StartTime: n.unsigned(f[19]),
	}
	if n.err != nil {
		return Stat{}, fmt.Errorf("parse stat: %w", n.err)
	}
	return s, nil
}

// cutComm splits "PID (COMM) REST".
func cutComm(b []byte) (pid, comm, rest []byte, err error) {
	open, shut := bytes.Index(b, []byte(" (")), bytes.LastIndexByte(b, ')')
	if open < 0 || shut < open+2 {
		return nil, nil, nil, errors.New("no comm in parentheses")
	}
	return b[:open], b[open+2 : shut], b[shut+1:], nil
}

// Status contains fields of /proc/PID/status.
type Status struct {
	Tgid int    // the process; differs from the argument if that is a thread
	UID  [4]int // real, effective, saved, file system
}

// ReadStatus reads /proc/PID/status.
func ReadStatus(pid int) (Status, error) {
	b, err := readPID(pid, "status")
	if err != nil {
		return Status{}, err
	}
	return ParseStatus(b)
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

// numbers converts the fields of one file, and keeps the first error.
type numbers struct{ err error }

// int converts pids and counts, which have 32 bits in the kernel.
func (n *numbers) int(text []byte) int {
	v, err := strconv.ParseInt(string(text), 10, 32)
	n.err = cmp.Or(n.err, err)
	return int(v)
}

func (n *numbers) unsigned(text []byte) uint64 {
	v, err := strconv.ParseUint(string(text), 10, 64)
	n.err = cmp.Or(n.err, err)
	return v
}

// clip keeps the error about a malformed line short.
func clip(b []byte) []byte { return b[:min(len(b), 64)] }

// Memory is the physical memory of a process, in bytes.
type Memory struct {
	Resident uint64
	Shared   uint64 // part of Resident: pages of files, and shared memory
}

// ReadMemory reads /proc/PID/statm. A zombie has no memory.
func ReadMemory(pid int) (m Memory, err error) {
	b, err := readPID(pid, "statm")
	if err != nil {
		return m, err
	}
	f := bytes.Fields(b)
	if len(f) < 3 {
		return m, fmt.Errorf("parse statm of %d: %q", pid, clip(b))
	}
	for i, to := range []*uint64{&m.Resident, &m.Shared} {
		pages, err := strconv.ParseUint(string(f[1+i]), 10, 52)
		if err != nil {
			return m, fmt.Errorf("parse statm of %d: %w", pid, err)
		}
		*to = pages * uint64(os.Getpagesize())
	}
	return m, nil
}
