// SPDX-License-Identifier: Apache-2.0

//go:build linux

package freeze

import (
	"errors"
	"slices"

	"github.com/mcpscope/mcpscope/internal/kernel/linux"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
)

// Root is a process whose descendants are in the tree while it lives. It is not in the tree itself.
type Root struct {
	PID   int
	PIDFD int // -1 for the calling process
}

// Tree is the set of processes below its roots, and of those that carry its tag.
type Tree struct {
	Roots []Root
	// Tag adds the processes that carry it and that a process of the user Owner may signal.
	Tag   Tag
	Owner int
	// OwnersOnly applies that to descendants as well: for a caller that may signal more processes than the
	// owner.
	OwnersOnly bool
	// Spare, if not nil, selects processes to leave out, with all their descendants below a root.
	Spare func(proc.Stat) bool
}

// Members lists the processes in the tree, without zombies. It can miss one that was just forked or
// re-parented.
func (t *Tree) Members() ([]int, error) {
	var all []int
	err := t.each(func(st proc.Stat) { all = append(all, st.PID) })
	return all, err
}

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

// RootsAlone reports whether the roots live and have no children. A root is a subreaper, so its descendants
// are found by their parents, except in a foreign pid namespace. A search by tag reads all processes, so it
// is left to the end of a stop.
func (t *Tree) RootsAlone() bool {
	for _, r := range t.Roots {
		if children, err := proc.Children(r.PID); err != nil || len(children) > 0 || !r.Alive() {
			return false
		}
	}
	return len(t.Roots) > 0
}

// Alive reports whether the root can have descendants.
func (r Root) Alive() bool { return !linux.Ended(r.PIDFD) }

// below lists the descendants of a root, parents first.
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

// zombie: only its parent can remove it. With other threads it still runs.
func zombie(st proc.Stat) bool {
	return st.State == 'X' || st.State == 'Z' && st.Threads <= 1
}
