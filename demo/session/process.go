// SPDX-License-Identifier: Apache-2.0

//go:build linux

package session

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// An identity tells a process from an earlier one of the same pid.
type identity struct {
	pid   int
	start string // clock ticks since boot
}

// A Process is one that belongs to the session, held by its pidfd.
type Process struct {
	PID    int
	Args   []string
	Cgroup string // path in the cgroup2 hierarchy

	pidfd int
}

// String names the process as a person would: its arguments without directories.
func (p *Process) String() string {
	var words []string
	for _, word := range strings.Fields(strings.Join(p.Args, " ")) {
		words = append(words, filepath.Base(word))
	}
	return strings.Join(words, " ")
}

// RSS returns the resident memory in bytes, 0 for a process that has exited.
func (p *Process) RSS() int {
	statm, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.PID))
	if err != nil || p.exited(0) {
		return 0
	}
	var size, resident int
	if _, err := fmt.Sscan(string(statm), &size, &resident); err != nil {
		return 0
	}
	return resident * os.Getpagesize()
}

// exited waits for at most d until the process has exited, all threads of it.
func (p *Process) exited(d time.Duration) bool {
	deadline := time.Now().Add(d)
	for {
		fds := []unix.PollFd{{Fd: int32(p.pidfd), Events: unix.POLLIN}}
		// Rounded up: a poll that ended early would make the last stretch a busy loop.
		timeout := max(0, (time.Until(deadline)+time.Millisecond-1)/time.Millisecond)
		n, err := unix.Poll(fds, int(timeout))
		if err == unix.EINTR {
			continue
		}
		return n > 0
	}
}

// kill ignores errors: a process that has exited is what it is for.
func (p *Process) kill()    { _ = unix.PidfdSendSignal(p.pidfd, unix.SIGKILL, nil, 0) }
func (p *Process) release() { _ = unix.Close(p.pidfd) }

// Observe takes hold of every process that belongs to the session now. It is
// complete while nothing forks, as between the client's Hello and its end.
func (s *Session) Observe() error {
	for {
		found, err := s.scan()
		if err != nil {
			return err
		}
		before := len(s.seen)
		for id, p := range found {
			if s.seen[id] == nil && p.open(id) {
				s.seen[id] = p
			}
		}
		if len(s.seen) == before {
			return nil
		}
	}
}

// Seen returns the processes observed, in the order of their pids.
func (s *Session) Seen() []*Process {
	return slices.SortedFunc(maps.Values(s.seen), func(a, b *Process) int { return cmp.Compare(a.PID, b.PID) })
}

// Left waits for all processes of the session to exit, until the deadline, and
// returns those that haven't.
func (s *Session) Left(deadline time.Time) ([]*Process, error) {
	for {
		if left := s.stillThere(deadline); len(left) > 0 {
			return left, nil
		}
		// Who was born since we looked shows by the mark.
		known := len(s.seen)
		if err := s.Observe(); err != nil || len(s.seen) == known {
			return nil, err
		}
	}
}

func (s *Session) stillThere(deadline time.Time) (left []*Process) {
	for _, p := range s.Seen() {
		if !p.exited(time.Until(deadline)) {
			left = append(left, p)
		}
	}
	return left
}

// open takes hold of the process if it is still the one that the scan has read.
func (p *Process) open(id identity) bool {
	fd, err := unix.PidfdOpen(p.PID, 0)
	if err != nil {
		return false // it has exited
	}
	p.pidfd = fd
	if again, err := readStat(p.PID); err != nil || again.start != id.start {
		p.release()
		return false
	}
	return true
}

// scan reads /proc once for the processes that are the session's: descendants of
// the client, whatever has the mark, and descendants of those.
func (s *Session) scan() (map[identity]*Process, error) {
	all, err := readAll()
	if err != nil {
		return nil, err
	}
	ours := map[int]bool{s.cmd.Process.Pid: s.cmd.ProcessState == nil}
	for pid, p := range all {
		if s.config.Mark != "" && p.has(s.config.Mark) {
			ours[pid] = true
		}
	}
	for grew := true; grew; {
		grew = false
		for pid, p := range all {
			if !ours[pid] && ours[p.ppid] {
				ours[pid], grew = true, true
			}
		}
	}
	found := make(map[identity]*Process)
	for pid, p := range all {
		if ours[pid] && pid != s.cmd.Process.Pid {
			found[p.identity] = &Process{PID: pid, Args: p.args, Cgroup: p.cgroup}
		}
	}
	return found, nil
}

// An entry is what /proc says of a process.
type entry struct {
	stat
	args   []string
	cgroup string
}

func (e *entry) has(mark string) bool {
	return strings.Contains(e.cgroup, mark) || slices.Contains(e.args, mark)
}

func readAll() (map[int]*entry, error) {
	dirs, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	all := make(map[int]*entry)
	for _, dir := range dirs {
		pid, err := strconv.Atoi(dir.Name())
		if err != nil {
			continue // not a process
		}
		if e, err := readEntry(pid); err == nil { // an error is one that has gone
			all[pid] = e
		}
	}
	return all, nil
}

func readEntry(pid int) (*entry, error) {
	st, err := readStat(pid)
	if err != nil {
		return nil, err
	}
	cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return nil, err
	}
	cgroups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return nil, err
	}
	return &entry{
		stat:   st,
		args:   strings.FieldsFunc(string(cmdline), func(r rune) bool { return r == 0 }),
		cgroup: unifiedPath(string(cgroups)),
	}, nil
}

// unifiedPath picks the cgroup2 path out of /proc/PID/cgroup, which on a hybrid
// host has a line for each other hierarchy too.
func unifiedPath(cgroups string) string {
	for line := range strings.Lines(cgroups) {
		if path, ok := strings.CutPrefix(line, "0::"); ok {
			return strings.TrimSuffix(path, "\n")
		}
	}
	return ""
}

// A stat is the part of /proc/PID/stat that says who the process is.
type stat struct {
	identity
	ppid int
}

func readStat(pid int) (stat, error) {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return stat{}, err
	}
	return parseStat(pid, string(line))
}

// parseStat starts behind the name, which may have spaces and brackets in it.
func parseStat(pid int, line string) (stat, error) {
	fields := strings.Fields(line[strings.LastIndexByte(line, ')')+1:])
	if len(fields) < 20 {
		return stat{}, fmt.Errorf("process %d: unknown format %q", pid, line)
	}
	ppid, err := strconv.Atoi(fields[1])
	return stat{identity{pid, fields[19]}, ppid}, err
}
