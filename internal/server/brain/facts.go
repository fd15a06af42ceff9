// SPDX-License-Identifier: Apache-2.0

package brain

import (
	"time"

	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/idle"
	"github.com/mcpscope/mcpscope/internal/server/lifecycle"
	"github.com/mcpscope/mcpscope/internal/server/policy"
)

// facts are for events before a stop alone, so there is a client's side.
type facts struct{ actor *actor }

// Unread reports whether the server has unread input.
func (f facts) Unread() bool { return f.actor.client.Unread() }

// Blocked reports whether the server's output waits for the client.
func (f facts) Blocked() bool { return f.actor.client.Blocked() }

// CPU is the time that the members have used.
func (f facts) CPU() (time.Duration, error) { return f.actor.server.Group.Members().CPU() }

// Traffic is nothing for a server to which no calls come.
func (f facts) Traffic() lifecycle.Traffic {
	var sum lifecycle.Traffic
	if !f.actor.client.Conveyed {
		return sum
	}
	pids, _ := f.actor.server.Group.PIDs() // as far as they can be listed
	for _, pid := range pids {
		read, written, _ := idle.Traffic(pid) // 0, if it has ended or is another user's
		sum.Read += read
		sum.Written += written
		if st, err := proc.ReadStat(pid); err == nil { // or it has ended
			sum.Members += st.StartTime<<22 | uint64(pid) // no pid is larger
		}
	}
	return sum
}

// HungUp reports whether nobody can write to stdin any more.
func (f facts) HungUp() bool { return f.actor.client.Stdin.Fired() }

// Abandoned reports whether no process outside the payload can write to stdin any more.
func (f facts) Abandoned() bool {
	in := f.actor.client
	s := f.actor.server
	if !in.Conveyed {
		return s.Config.Policy.OnClientDeath == policy.StopOnClientDeath
	}
	ours := []int{s.Config.Launcher.PID, int(s.Page.ByGuard.GuardPID)}
	return in.NobodyElseHolds(s.Group.Members(), group.TagOf(s.Config.Group.ID), ours)
}
