// SPDX-License-Identifier: Apache-2.0

//go:build linux

package proc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"

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
	slices.Sort(tids)
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
