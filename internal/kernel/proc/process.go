// SPDX-License-Identifier: Apache-2.0

//go:build linux

package proc

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Children lists the direct children of a process, with zombies, in ascending order. Children that start or
// exit meanwhile may be missing, and the kernel may skip the next sibling of a child that exits. Callers that
// need all of them repeat the call until it returns nothing new.
//
// A child belongs to the thread that forked it. When a thread exits, another thread takes over its children,
// which may be one that was read already. So the threads are read until they are the same before and after.
// The number of attempts is bounded because a process can start threads all the time.
func Children(pid int) ([]int, error) {
	const attempts = 4
	var all, before []int
	for n := 0; ; n++ {
		tids, err := threads(pid)
		if err != nil {
			return nil, err
		}
		if n == attempts || n > 0 && slices.Equal(tids, before) {
			slices.Sort(all)
			return slices.Compact(all), nil
		}
		all, before = nil, tids
		for _, tid := range tids {
			pids, err := childrenOfThread(pid, tid)
			if err != nil {
				return nil, err
			}
			all = append(all, pids...)
		}
	}
}

// Orphans lists the children of a process's first thread. The kernel re-parents orphans to it
// (find_alive_thread in exit.c). It is much faster than Children.
func Orphans(pid int) ([]int, error) { return childrenOfThread(pid, pid) }

// childrenOfThread: a missing file means that the thread has exited, or that this kernel has no such file.
// Our own thread distinguishes the two.
func childrenOfThread(pid, tid int) ([]int, error) {
	b, err := read(fmt.Sprintf("/proc/%d/task/%d/children", pid, tid), NoLimit)
	switch {
	case err == nil:
		return ParsePIDs(b)
	case errors.Is(err, unix.ESRCH):
		return nil, nil
	case !errors.Is(err, unix.ENOENT):
		return nil, err
	case unix.Access("/proc/thread-self/children", unix.F_OK) != nil:
		return nil, fmt.Errorf("no CONFIG_PROC_CHILDREN: %w", errors.ErrUnsupported)
	case tid == pid: // the first thread stays as long as the process
		return nil, markGone(pid, err)
	}
	return nil, nil
}

// Each calls visit for every visible process, in ascending order, until it returns false. It reads a few
// processes at a time. So a process is visited while it exists, and also if a process that has not been
// visited yet forks it, as long as pids grow.
func Each(visit func(pid int) bool) error {
	fd, err := unix.Open("/proc", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open /proc: %w", err)
	}
	defer unix.Close(fd)
	var buf [512]byte // about twenty entries
	for {
		n, err := unix.ReadDirent(fd, buf[:])
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return fmt.Errorf("list /proc: %w", err)
		}
		if n == 0 {
			return nil
		}
		_, _, names := unix.ParseDirent(buf[:n], -1, nil)
		for _, name := range names {
			if pid, err := strconv.Atoi(name); err == nil && !visit(pid) {
				return nil
			}
		}
	}
}

func threads(pid int) ([]int, error) {
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	var tids []int
	for _, e := range entries {
		if tid, err := strconv.Atoi(e.Name()); err == nil {
			tids = append(tids, tid)
		}
	}
	return tids, markGone(pid, err)
}

// ParsePIDs parses cgroup.procs, cgroup.threads, or /proc/PID/task/TID/children. It returns each pid once and
// in ascending order: a process that left and returned during the read is listed twice. 0 stands for all
// processes outside our pid namespace. Only cgroup.kill reaches these, and kill(2) would signal our own
// process group.
func ParsePIDs(b []byte) ([]int, error) {
	var pids []int
	for text := range bytes.FieldsSeq(b) {
		// 31 bits and no sign: a negative number would be a process group to kill(2)
		n, err := strconv.ParseUint(string(text), 10, 31)
		if err != nil {
			return nil, fmt.Errorf("parse pids: %w", err)
		}
		pids = append(pids, int(n))
	}
	slices.Sort(pids)
	return slices.Compact(pids), nil
}

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
	b, err := readPID(pid, "stat", NoLimit)
	s, malformed := ParseStat(b)
	return s, cmp.Or(err, malformed)
}

// ParseStat parses the contents of /proc/PID/stat.
//
// The comm is not escaped, and may contain parentheses, blanks and newlines. No field after it contains a
// ')', so it ends at the last one.
func ParseStat(b []byte) (Stat, error) {
	open, shut := bytes.Index(b, []byte(" (")), bytes.LastIndexByte(b, ')')
	if open < 0 || shut < open+2 {
		return Stat{}, errors.New("parse stat: no comm in parentheses")
	}
	f := bytes.Fields(b[shut+1:]) // from the state, the third field in proc(5)
	if len(f) < 20 {
		return Stat{}, fmt.Errorf("parse stat: %d fields behind the comm", len(f))
	}
	var n numbers
	s := Stat{
		PID:       n.int(b[:open]),
		Comm:      string(b[open+2 : shut]),
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

// Status contains fields of /proc/PID/status.
type Status struct {
	Tgid int    // the process; differs from the argument if that is a thread
	UID  [4]int // real, effective, saved, file system
}

// ReadStatus reads /proc/PID/status.
func ReadStatus(pid int) (Status, error) {
	b, err := readPID(pid, "status", NoLimit)
	s, malformed := ParseStatus(b)
	return s, cmp.Or(err, malformed)
}

// ParseStatus parses the contents of /proc/PID/status. The kernel escapes newlines in the name, so a process
// cannot forge a line.
func ParseStatus(b []byte) (s Status, err error) {
	for line := range strings.Lines(string(b)) {
		switch key, value, _ := strings.Cut(line, ":"); key {
		case "Tgid":
			_, err = fmt.Sscan(value, &s.Tgid)
		case "Uid": // (uid_t)-1 too
			_, err = fmt.Sscan(value, &s.UID[0], &s.UID[1], &s.UID[2], &s.UID[3])
		}
		if err != nil {
			return Status{}, fmt.Errorf("parse status: %w", err)
		}
	}
	if s.Tgid == 0 {
		return Status{}, errors.New("parse status: no Tgid")
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

// Memory is the physical memory of a process, in bytes.
type Memory struct {
	Resident uint64
	Shared   uint64 // part of Resident: pages of files, and shared memory
}

// ReadMemory reads /proc/PID/statm. A zombie has no memory.
func ReadMemory(pid int) (m Memory, err error) {
	b, err := readPID(pid, "statm", NoLimit)
	if err != nil {
		return m, err
	}
	var size uint64
	if _, err := fmt.Sscan(string(b), &size, &m.Resident, &m.Shared); err != nil {
		return Memory{}, fmt.Errorf("parse statm of %d: %w", pid, err)
	}
	m.Resident *= uint64(os.Getpagesize())
	m.Shared *= uint64(os.Getpagesize())
	return m, nil
}
