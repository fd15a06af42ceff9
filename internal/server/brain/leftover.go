// SPDX-License-Identifier: Apache-2.0

//go:build linux

package brain

import (
	"slices"
	"strings"

	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/server/report"
	"github.com/mcpscope/mcpscope/internal/server/sweep"
)

// endLeftOvers kills the members that left the group. They descend from the guard, a subreaper, or carry
// the tag.
func (b *Brain) endLeftOvers() {
	if below := group.Below(b.Guarded()); !below.RootsAlone() {
		nested := b.nested()
		b.killLeftOvers(below)
		b.removeNested(nested)
	}
	b.killLeftOvers(b.Group.Tagged())
}

func (b *Brain) Guarded() group.Guarded {
	return group.Guarded{PID: int(b.Page.GuardPID), PIDFD: b.Guard.PIDFD()}
}

// killLeftOvers kills these members, and those that are re-parented to the guard by that.
func (b *Brain) killLeftOvers(found *freeze.Tree) {
	left, err := freeze.Stop{Target: found, Frozen: func() {
		pids, _ := found.Members() // for people only
		for _, pid := range pids[:min(len(pids), report.KilledMost)] {
			b.killed = append(b.killed, describe(pid))
		}
	}}.Run()
	b.stuck = freeze.AddStuck(b.stuck, left)
	if err != nil {
		b.Note(protocol.MovedUnknown + protocol.OneLine(err))
	}
}

// nested returns the ids of nested servers, by their guards.
func (b *Brain) nested() (ids []string) {
	children, _ := proc.Children(int(b.Page.GuardPID)) // none, if it is dead
	for _, pid := range children {
		if st, err := proc.ReadStat(pid); err == nil && group.IsGuard(st) {
			ids = append(ids, strings.TrimPrefix(st.Comm, protocol.GroupPrefix))
		}
	}
	return ids
}

// removeNested removes the groups of servers whose guards were killed.
func (b *Brain) removeNested(ids []string) {
	parent, _ := b.Group.Beside()
	if parent == nil || len(ids) == 0 {
		return
	}
	dirs, _ := parent.Children() // none, if they can't be listed: a later sweep removes them
	for _, dir := range dirs {
		if slices.Contains(ids, protocol.IDOf(dir)) {
			_, _ = sweep.SweepOne(parent, dir, sweep.SweepNow) // as above
		}
	}
}

// parentOf is 0 if the process has exited.
func parentOf(pid int) int {
	st, err := proc.ReadStat(pid)
	if err != nil {
		return 0
	}
	return st.PPID
}
