// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"bytes"
	"errors"
	"fmt"
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

// The fields of /proc/PID/stat after the comm, counted from the state, the third field in proc(5).
const (
	statState     = 0
	statPPID      = 1
	statUTime     = 11
	statSTime     = 12
	statCUTime    = 13
	statCSTime    = 14
	statThreads   = 17
	statStartTime = 19
	statFields    = 20 // the minimum; kernels have added more
)

// ParseStat parses the contents of /proc/PID/stat.
//
// The comm is not escaped, and may contain parentheses, blanks and newlines. No field after it contains a
// ')', so it ends at the last one.
func ParseStat(b []byte) (Stat, error) {
	pid, comm, rest, err := cutComm(b)
	if err != nil {
		return Stat{}, fmt.Errorf("parse stat: %w", err)
	}
	f := bytes.Fields(rest)
	if len(f) < statFields {
		return Stat{}, fmt.Errorf("parse stat: %d fields behind the comm in %q", len(f), clip(rest))
	}
	var n numbers
	s := Stat{
		PID:       n.int(pid),
		Comm:      string(comm),
		State:     f[statState][0],
		PPID:      n.int(f[statPPID]),
		UTime:     n.unsigned(f[statUTime]),
		STime:     n.unsigned(f[statSTime]),
		CUTime:    n.unsigned(f[statCUTime]),
		CSTime:    n.unsigned(f[statCSTime]),
		StartTime: n.unsigned(f[statStartTime]),
		Threads:   n.int(f[statThreads]),
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
