// SPDX-License-Identifier: Apache-2.0

//go:build linux

package launcher

import (
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/kernel/linux"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/server/report"
	"github.com/mcpscope/mcpscope/internal/server/sweep"
)

// endLeftOvers kills the members that are not in the group any more. Those that moved themselves to another cgroup descend
// from the guard, or carry the tag. A guard among them is that of a server in this server: its launcher is dead, so it stops
// that server, with a grace of its own, and exits. It is spared no longer than that takes.
func (b *brain) endLeftOvers() {
	if below := group.Below(b.guarded()); !below.RootsAlone() {
		b.endBelow(below)
	}
	b.killLeftOvers(b.group.Tagged())
}

func (b *brain) endBelow(below *freeze.Tree) {
	spare := below.Spare
	for until := time.Now().Add(protocol.NestedWithin + max(b.config.Policy.TermGrace, 0)); ; {
		b.killLeftOvers(below)
		nested := b.nested()
		if len(nested) == 0 {
			break
		}
		if !time.Now().Before(until) {
			below.Spare = func(st proc.Stat) bool { return st.PID == os.Getpid() }
			b.killLeftOvers(below)
			below.Spare = spare
			b.endNested(nested)
			break
		}
		if fd, err := unix.PidfdOpen(nested[0].PID, 0); err == nil {
			linux.AwaitEnd(fd, unix.POLLIN, time.Until(until))
			_ = unix.Close(fd)
		}
	}
}

func (b *brain) guarded() group.Guarded {
	return group.Guarded{PID: int(b.page.GuardPID), PIDFD: b.guard.PIDFD()}
}

// killLeftOvers kills what is found, and what is re-parented to the guard by that.
func (b *brain) killLeftOvers(found *freeze.Tree) {
	s := freeze.Stop{Target: found, Frozen: func() {
		pids, _ := found.Members() // for people only
		for _, pid := range pids[:min(len(pids), report.InspectFew)] {
			if !slices.ContainsFunc(b.killed, func(k report.Killed) bool { return k.PID == pid }) { // it can't be killed yet
				b.killed = append(b.killed, b.describe(pid))
			}
		}
	}}
	left, err := s.Run()
	b.stuck = freeze.AddStuck(b.stuck, left)
	if err != nil {
		b.note(protocol.MovedUnknown + protocol.OneLine(err))
	}
}

// nested are the guards below ours.
func (b *brain) nested() (all []proc.Stat) {
	children, _ := proc.Children(int(b.page.GuardPID)) // none, if it is dead
	for _, pid := range children {
		if st, err := proc.ReadStat(pid); err == nil && st.State != 'Z' && pid != os.Getpid() && group.IsGuard(st) {
			all = append(all, st)
		}
	}
	return all
}

// endNested ends the groups of guards that were killed. Without groups their members are re-parented to our guard.
func (b *brain) endNested(guards []proc.Stat) {
	parent, _ := b.group.Beside()
	if parent == nil {
		return
	}
	dirs, _ := parent.Children() // none, if they can't be listed: a sweep ends them
	for _, dir := range dirs {
		if slices.ContainsFunc(guards, func(st proc.Stat) bool { return protocol.GuardComm(protocol.IDOf(dir)) == st.Comm }) {
			_, _ = sweep.SweepOne(parent, dir, sweep.SweepNow) // what failed a later sweep tries again
		}
	}
}

// parentOf is 0 for a process that is gone.
func parentOf(pid int) int {
	st, err := proc.ReadStat(pid)
	if err != nil {
		return 0
	}
	return st.PPID
}
