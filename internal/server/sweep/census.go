// SPDX-License-Identifier: Apache-2.0

package sweep

import (
	"sync"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// census has what a sweep reads once for all groups of a directory. So the cost of a sweep does not grow with
// the square of their number. A census may be out of date: a group that looks like an orphan is judged again
// without one. A nil census reads everything anew.
type census struct {
	guards map[string]int // pids by the id of their server
	read   func() (proc.Locks, error)
}

// takeCensus is called after the directory was listed: a guard is forked before its group is made, so the
// census has the guard of each group in the list.
func takeCensus(parent *cgroup.Group) *census {
	guards, _ := group.GuardsOf(parent, protocol.GuardsName) // without a guard the locks count
	return &census{guards, sync.OnceValues(proc.ReadLocks)}
}

// guardOf returns the pid of a group's guard, or 0. hidden: it may be a process that is invisible.
func (c *census) guardOf(g *group.ControlGroup) (pid int, hidden bool) {
	switch {
	case c == nil:
		return g.GuardPID()
	case c.guards[g.ID] > 0:
		return c.guards[g.ID], false
	case g.Managed: // its guard is in the scope
		return g.GuardInScope()
	}
	return 0, false
}

func (c *census) locks() (proc.Locks, error) {
	if c == nil {
		return proc.ReadLocks()
	}
	return c.read()
}
