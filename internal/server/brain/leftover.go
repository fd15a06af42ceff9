// SPDX-License-Identifier: Apache-2.0

//go:build linux

package brain

import (
	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/server/report"
	"github.com/mcpscope/mcpscope/internal/server/sweep"
)

// endLeftOvers kills the members that left the group. They descend from the guard, a subreaper, while that
// lives. Otherwise they carry the tag; to search for it reads all processes of the host, 1 ms for 100 of
// them.
func (b *Brain) endLeftOvers() {
	below := group.Below(b.Guarded())
	alone := below.RootsAlone()
	if !alone {
		b.killLeftOvers(below)
		sweep.BeginSweep(b.Group.Beside())() // guards of nested servers may be among them
	}
	if !alone || b.Config.Taken {
		b.killLeftOvers(b.Group.Tagged())
	}
}

func (b *Brain) Guarded() group.Guarded {
	return group.Guarded{PID: int(b.Page.GuardPID), PIDFD: b.Guard.PIDFD}
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
