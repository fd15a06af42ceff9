// SPDX-License-Identifier: Apache-2.0

//go:build linux

package leaks

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/linux"
	"github.com/mcpscope/mcpscope/internal/proc"
)

// Escaped is a process that a server had somebody else start, as systemd, at or a bus do, with all below it: it is in no
// server's group, and has kept the variable that says where it comes from.
type Escaped struct {
	PID, UID int
	Server   string // its id
	Argv     []string
	Age      time.Duration
	Below    []int // its descendants
	pidfd    int
	start    uint64
}

// mark is the variable that a server's processes have.
const mark = "MCPSCOPE_ID="

// FindEscaped lists them, the oldest first. Each has to be closed. Of those that may not be looked at nothing is
// known (proc_pid_environ(5)); the caller and what has started it are none.
func (s Search) FindEscaped() ([]*Escaped, error) {
	all, below, err := everybody()
	if err != nil {
		return nil, err
	}
	own := map[int]bool{}
	for pid := os.Getpid(); pid > 0 && !own[pid]; pid = all[pid].PPID {
		own[pid] = true
	}
	ids := map[int]string{}
	for pid, p := range all {
		if !own[pid] && (s.UID == Everyone || p.uid == s.UID) && !isOurs(pid) {
			ids[pid] = serverOf(pid)
		}
	}
	var found []*Escaped
	for pid, id := range ids {
		p := all[pid]
		if id == "" || p.age < s.OlderThan || s.Contained(pid, id) || ids[p.PPID] == id && !s.Contained(p.PPID, id) {
			continue
		}
		e := &Escaped{PID: pid, UID: p.uid, Server: id, Argv: arguments(pid), Age: p.age, Below: descendants(pid, below), start: p.StartTime}
		if e.pidfd, err = unix.PidfdOpen(pid, 0); err != nil {
			continue // it has ended
		}
		if !e.is() || slices.ContainsFunc(e.Below, func(pid int) bool { return own[pid] }) {
			e.Close()
			continue
		}
		found = append(found, e)
	}
	slices.SortFunc(found, func(a, b *Escaped) int { return int(b.Age/time.Millisecond) - int(a.Age/time.Millisecond) })
	return found, nil
}

// Close gives back what it has open.
func (e *Escaped) Close() { _ = unix.Close(e.pidfd) }

// Stop ends it, with all below it.
func (e *Escaped) Stop(grace time.Duration) error {
	if linux.Ended(e.pidfd) {
		return nil
	}
	if !e.is() {
		return ErrChanged
	}
	return end(e.PID, e.pidfd, e.UID, unix.SIGTERM, grace)
}

// is tells whether the process is still the one that was looked at.
func (e *Escaped) is() bool {
	st, err := proc.ReadStat(e.PID)
	return err == nil && st.StartTime == e.start && serverOf(e.PID) == e.Server && !linux.Ended(e.pidfd)
}

// serverOf is the id that a process has in its environment, "" for none.
func serverOf(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return ""
	}
	for v := range strings.SplitSeq(string(text), "\x00") {
		if id, has := strings.CutPrefix(v, mark); has && isID(id) {
			return id
		}
	}
	return ""
}

// isID: somebody may have put anything there.
func isID(s string) bool {
	return len(s) == 8 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789") == ""
}

// isOurs: the watcher of a gateway that a server has started is outside of its group, and ends by itself.
func isOurs(pid int) bool {
	file, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)) // "", if it may not be looked at
	name := path.Base(strings.TrimSuffix(file, " (deleted)"))
	return name == "mcpscope" || name == "mcpscopectl"
}
