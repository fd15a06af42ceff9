// SPDX-License-Identifier: Apache-2.0

//go:build linux

package freeze

import (
	"errors"
	"slices"

	"github.com/mcpscope/mcpscope/internal/kernel/linux"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
)

// Root is a process whose descendants are in the tree for as long as it lives. It is
// not in the tree itself.
type Root struct {
	PID   int
	PIDFD int // -1 for the calling process
}

// Tree is what is below its roots, and who carries its tag.
type Tree struct {
	Roots []Root
	// Tag adds the processes that carry it, as far as a process of the user Owner could signal
	// them.
	Tag   Tag
	Owner int
	// OwnersOnly makes that a condition below the roots, too: for a caller who may signal more
	// processes than the owner of the tree.
	OwnersOnly bool
	// Spare, if not nil, tells which process is left out. Below a root all that is below it is
	// left out, too.
	Spare func(proc.Stat) bool
}

// Members lists who is in the tree now. One that was forked, or whose parent died while
// this went on may be missing; zombies are.
func (t *Tree) Members() ([]int, error) {
	var all []int
	err := t.each(func(st proc.Stat) { all = append(all, st.PID) })
	return all, err
}

// each calls fn for every member.
func (t *Tree) each(fn func(proc.Stat)) error {
	if t.RootsAlone() {
		return nil
	}
	var errs []error
	seen := map[int]bool{} // a member that has the tag and descends from a root is one
	for _, r := range t.Roots {
		found, err := t.below(r)
		if !r.Alive() {
			continue // its pid may be another's by now, and so what was found below it
		}
		for _, st := range found {
			seen[st.PID] = true
			fn(st)
		}
		errs = append(errs, err)
	}
	tagged, err := t.Tag.carriers(t.Owner)
	for _, st := range tagged {
		if !seen[st.PID] && (t.Spare == nil || !t.Spare(st)) {
			fn(st)
		}
	}
	return errors.Join(append(errs, err)...)
}

// RootsAlone tells whether the roots live and have no children. What a root has started, a subreaper, descends from it, but for
// a process in a foreign pid namespace whose parents there are dead. To search for that by its tag takes a look at every
// process, so it is left to the end of a stop.
func (t *Tree) RootsAlone() bool {
	for _, r := range t.Roots {
		if children, err := proc.Children(r.PID); err != nil || len(children) > 0 || !r.Alive() {
			return false
		}
	}
	return len(t.Roots) > 0
}

// Alive tells whether the root can have descendants.
func (r Root) Alive() bool { return !linux.Ended(r.PIDFD) }

// below lists what is below a root, the parents first.
func (t *Tree) below(r Root) ([]proc.Stat, error) {
	var found []proc.Stat
	var errs []error
	for todo := []int{r.PID}; len(todo) > 0; {
		pid := todo[0]
		todo = todo[1:]
		children, err := proc.Children(pid)
		if err != nil && !errors.Is(err, proc.ErrGone) {
			errs = append(errs, err)
		}
		for _, child := range children {
			st, err := proc.ReadStat(child)
			if err != nil || t.leftOut(st) {
				continue
			}
			if !zombie(st) && (!t.OwnersOnly || owns(t.Owner, child)) {
				found = append(found, st)
			}
			todo = append(todo, child)
		}
	}
	return found, errors.Join(errs...)
}

func (t *Tree) leftOut(st proc.Stat) bool {
	isRoot := slices.ContainsFunc(t.Roots, func(r Root) bool { return r.PID == st.PID })
	return isRoot || t.Spare != nil && t.Spare(st)
}

// zombie: only its parent can do anything about it. One with threads that run is none.
func zombie(st proc.Stat) bool {
	return st.State == 'X' || st.State == 'Z' && st.Threads <= 1
}

// ErrInit: below the first process everyone is, so it is never a root.
var ErrInit = errors.New("init is no root")

// NewRoot makes a root of a process that is held by a pidfd, which stays the caller's. It
// may have ended.
func NewRoot(pidfd int) (Root, error) {
	pid, err := proc.PIDOf(pidfd)
	if errors.Is(err, proc.ErrGone) {
		err = nil
	}
	if pid == 1 {
		return Root{}, ErrInit
	}
	return Root{PID: pid, PIDFD: pidfd}, err
}
