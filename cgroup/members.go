// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cgroup

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/kernel/proc"
)

// Members lists the processes of the whole subtree, as this pid namespace numbers
// them. A process whose first thread has exited is listed as well.
func (g *Group) Members() ([]int, error) {
	var pids []int
	err := g.walk(visitor{enter: func(fd int) error {
		here, err := procs(fd)
		pids = append(pids, here...)
		return err
	}})
	if err != nil {
		return pids, fmt.Errorf("list members of cgroup %q: %w", g.path, err)
	}
	return pids, nil
}

// procs reads one directory's processes. A threaded group answers cgroup.procs
// with EOPNOTSUPP: its processes are listed by the domain above it, but a member
// whose first thread is gone may show only in cgroup.threads.
func procs(fd int) ([]int, error) {
	b, err := readFile(fd, "cgroup.procs")
	if errors.Is(err, unix.EOPNOTSUPP) {
		return threadGroups(fd)
	}
	if gone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	pids, err := proc.ParsePIDs(b)
	return visible(pids), err
}

func threadGroups(fd int) ([]int, error) {
	b, err := readFile(fd, "cgroup.threads")
	if gone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	tids, err := proc.ParsePIDs(b)
	var pids []int
	seen := map[int]bool{}
	for _, tid := range visible(tids) {
		st, err := proc.ReadStatus(tid)
		if err != nil || seen[st.Tgid] {
			continue // a thread that has gone needs nothing more
		}
		seen[st.Tgid] = true
		pids = append(pids, st.Tgid)
	}
	return pids, err
}

// visible drops the zeros that stand for processes of another pid namespace.
func visible(pids []int) []int {
	return slices.DeleteFunc(pids, func(pid int) bool { return pid <= 0 })
}

// Thaw thaws the group and every group below it, which a member may have frozen
// itself.
func (g *Group) Thaw() error {
	return g.Each(func(sub *Group) error {
		_ = sub.SetFrozen(false) // gone, or a kernel without the freezer: nothing to thaw
		return nil
	})
}

// Each calls fn for the group and every group below it.
func (g *Group) Each(fn func(*Group) error) error {
	return g.walk(visitor{enter: func(fd int) error {
		return fn(&Group{fd: fd, path: g.path})
	}})
}
