// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// Children lists the direct children of a process, zombies too, in ascending
// order. Those that come or go meanwhile may or may not be listed, and where a
// child goes the kernel may skip its next sibling, so whoever must have all of
// them asks until nothing new turns up.
//
// The kernel is asked for the children of each thread: a child belongs to the thread that forked it. When a thread
// ends, another takes over its children, perhaps one that was asked already: hence again, until the threads are the
// same after as before. Bounded, for a process that starts threads all the time.
func Children(pid int) ([]int, error) {
	const attempts = 4
	before, err := threads(pid)
	for n := 1; err == nil; n++ {
		var pids, after []int
		if pids, err = childrenOf(pid, before); err != nil {
			break
		}
		if after, err = threads(pid); err == nil && (n == attempts || slices.Equal(before, after)) {
			return pids, nil
		}
		before = after
	}
	return nil, err
}

// Orphans lists the children of a process's first thread: those that came home to it as
// a subreaper are among them (find_alive_thread in the kernel's exit.c), and it is much
// faster than Children.
func Orphans(pid int) ([]int, error) { return childrenOfThread(pid, pid) }

func childrenOf(pid int, tids []int) ([]int, error) {
	var all []int
	for _, tid := range tids {
		pids, err := childrenOfThread(pid, tid)
		if err != nil {
			return nil, err
		}
		all = append(all, pids...)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// childrenOfThread: that the file is missing means the thread has ended, or
// that no thread on this kernel has one. Our own thread tells which.
func childrenOfThread(pid, tid int) ([]int, error) {
	b, err := read(fmt.Sprintf("/proc/%d/task/%d/children", pid, tid), noLimit)
	switch {
	case err == nil:
		return parseChildren(b)
	case errors.Is(err, unix.ESRCH):
		return nil, nil
	case !errors.Is(err, unix.ENOENT):
		return nil, err
	case unix.Access("/proc/thread-self/children", unix.F_OK) != nil:
		return nil, fmt.Errorf("no CONFIG_PROC_CHILDREN: %w", errors.ErrUnsupported)
	}
	return nil, nil
}

// Each calls visit for every process that we see, in ascending order, until it returns false.
// The kernel is asked for a few processes at a time, so that visit looks at each while it is
// there: one that is forked by a process that has not been visited yet is visited too, as long as
// pids grow.
func Each(visit func(pid int) bool) error {
	fd, err := unix.Open("/proc", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open /proc: %w", err)
	}
	defer unix.Close(fd)
	var buf [512]byte // some twenty entries
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
		for entries := buf[:n]; len(entries) > 0; {
			var pid int
			pid, entries = nextPID(entries)
			if pid > 0 && !visit(pid) {
				return nil
			}
		}
	}
}

// nextPID takes the first entry off a getdents64(2) buffer; pid is 0 if its name is no number.
func nextPID(buf []byte) (pid int, rest []byte) {
	const reclen, name = 16, 19 // offsets in struct linux_dirent64
	if len(buf) <= name {
		return 0, nil
	}
	size := int(binary.NativeEndian.Uint16(buf[reclen:]))
	if size <= name || size > len(buf) {
		return 0, nil
	}
	for _, c := range buf[name:size] {
		if c == 0 {
			break
		}
		if c < '0' || c > '9' {
			return 0, buf[size:]
		}
		pid = 10*pid + int(c-'0')
	}
	return pid, buf[size:]
}

func threads(pid int) ([]int, error) {
	if err := checkPID(pid); err != nil {
		return nil, fmt.Errorf("list threads: %w", err)
	}
	tids, err := numbersIn(pidPath(pid) + "/task")
	return tids, markGone(pid, err)
}

// numbersIn lists the entries of a directory of /proc that are pids or tids, in
// ascending order.
func numbersIn(dir string) ([]int, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var out []int
	for _, name := range names {
		if n, err := strconv.Atoi(name); err == nil {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out, nil
}
