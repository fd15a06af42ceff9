package proc

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// errNoChildren: this kernel has no /proc/PID/task/TID/children.
var errNoChildren = errors.New("no CONFIG_PROC_CHILDREN")

// Children lists the direct children of a process, zombies too, in ascending
// order. Those that come or go meanwhile may or may not be listed, and where a
// child goes the kernel may skip its next sibling, so whoever must have all of
// them asks until nothing new turns up.
func Children(pid int) ([]int, error) {
	pids, err := childrenByTask(pid)
	if errors.Is(err, errNoChildren) {
		return childrenByScan(pid)
	}
	return pids, err
}

// Orphans lists the children of a process's first thread: those that came home to it as
// a subreaper are among them (find_alive_thread in the kernel's exit.c), and it is much
// faster than Children. Without CONFIG_PROC_CHILDREN it gives nobody.
func Orphans(pid int) ([]int, error) { return childrenOfThread(pid, pid) }

// childrenByTask asks the kernel for the children of each thread: a child
// belongs to the thread that forked it. When a thread ends, another takes over
// its children, perhaps one that we have asked already: hence again, until the
// threads are the same after as before. Bounded, for a process that starts
// threads all the time.
func childrenByTask(pid int) ([]int, error) {
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
		return nil, errNoChildren
	}
	return nil, nil
}

// All lists the processes that we see, in ascending order.
func All() ([]int, error) { return numbersIn("/proc") }

// childrenByScan asks every process for its parent. One that we may not look at
// (hidepid=1) is passed over: it belongs to another user, so it is nothing that
// we could act upon.
func childrenByScan(pid int) ([]int, error) {
	if _, err := ReadStat(pid); err != nil {
		return nil, err
	}
	all, err := All()
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, p := range all {
		s, err := ReadStat(p)
		switch {
		case err == nil && s.PPID == pid:
			pids = append(pids, p)
		case err != nil && !unseen(err):
			return nil, err
		}
	}
	return pids, nil
}

// unseen: gone since /proc was listed, or not ours to see.
func unseen(err error) bool {
	return errors.Is(err, ErrGone) || errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission)
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
