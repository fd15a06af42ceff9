// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cgroup

import (
	"cmp"
	"errors"
	"io"
	"math"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/kernel/proc"
)

// Members lists the processes of the whole subtree, with the pids of our pid namespace. It contains processes
// whose first thread has exited.
func (g *Group) Members() (pids []int, err error) {
	err = g.Each(func(sub *Group) error {
		b, err := sub.Read("cgroup.procs")
		if errors.Is(err, unix.EOPNOTSUPP) { // a threaded group: the domain above it lists its processes
			return nil
		}
		here, malformed := proc.ParsePIDs(b)
		pids = append(pids, here...)
		return cmp.Or(proc.IgnoreGone(err), malformed)
	})
	return slices.DeleteFunc(pids, func(pid int) bool { return pid == 0 }), err // of another pid namespace
}

// State is the content of cgroup.events.
type State struct {
	Populated bool
	Frozen    bool
}

// State reads cgroup.events. A group that was removed is neither populated nor frozen.
func (g *Group) State() (State, error) {
	b, err := g.Read("cgroup.events")
	if err != nil {
		return State{}, proc.IgnoreGone(err)
	}
	return parseState(b), nil
}

// parseState takes an unknown "populated" for true: a member that does not exist costs time, and the opposite
// mistake leaves a process alive.
func parseState(b []byte) State {
	populated, ok := proc.Keyed(b, "populated")
	frozen, _ := proc.Keyed(b, "frozen")
	return State{Populated: !ok || populated != 0, Frozen: frozen != 0}
}

// Each calls fn for the group, and then for all groups below it. It skips groups that are removed
// meanwhile. An error of one group does not end the walk.
func (g *Group) Each(fn func(*Group) error) error {
	errs := []error{fn(g)}
	names, err := g.Children()
	errs = append(errs, proc.IgnoreGone(err))
	for _, name := range names {
		child, err := g.Child(name)
		if err != nil {
			errs = append(errs, proc.IgnoreGone(err))
			continue
		}
		errs = append(errs, child.Each(fn))
		_ = child.Close() // a directory
	}
	return errors.Join(errs...)
}

// Children lists the names of the directories directly below g.
func (g *Group) Children() ([]string, error) { return g.FirstChildren(math.MaxInt) }

// FirstChildren is Children for a directory of another user, who can make any number: it returns at most that
// many names.
func (g *Group) FirstChildren(most int) ([]string, error) {
	var st unix.Stat_t
	if unix.Fstat(g.fd, &st) == nil && st.Nlink <= 2 {
		return nil, nil // kernfs counts directories, and there are about sixty files
	}
	fd, err := openDir(g.fd, ".") // g.fd has one offset for all callers
	if err != nil {
		return nil, g.failed("list cgroup", "", err)
	}
	dir := os.NewFile(uintptr(fd), g.path)
	defer dir.Close()
	var names []string
	for {
		entries, err := dir.ReadDir(readAtOnce)
		for _, e := range entries {
			if len(names) == most {
				return names, nil
			}
			if e.IsDir() {
				names = append(names, e.Name())
			}
		}
		if errors.Is(err, io.EOF) {
			return names, nil
		}
		if err != nil {
			return names, err
		}
	}
}

const readAtOnce = 256 // entries of a directory

// Remove removes the directory name below g and all below that, children first. A missing directory is no
// error. EBUSY means that a group has a member; nothing is killed here.
func (g *Group) Remove(name string) error {
	if child, err := g.Child(name); err == nil {
		defer child.Close()
		names, _ := child.Children() // with one that is left, the directory can't be removed either
		for _, below := range names {
			_ = child.Remove(below) // then RemoveLeaf fails, too
		}
	}
	return g.RemoveLeaf(name)
}

// RemoveLeaf removes the directory name below g. A missing directory is no error. EBUSY means that it has a
// member, or a directory below it.
func (g *Group) RemoveLeaf(name string) error {
	return g.failed("remove cgroup", name, proc.IgnoreGone(unix.Unlinkat(g.fd, name, unix.AT_REMOVEDIR)))
}
