// SPDX-License-Identifier: Apache-2.0

package orphan

import (
	"sync"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/names"
)

// Census has the facts that are read once for all groups of a directory. So the cost of a sweep, or of a
// list, does not grow with the square of their number. A census may be out of date: a sweep judges a group
// that looks like an orphan again, without one. A nil census reads everything anew.
type Census struct {
	guards map[string]int // pids by the id of their server
	hidden bool           // some guard is invisible: see group.GuardsOf
	read   func() (proc.Locks, error)
}

// TakeCensus is called after the directory was listed: a guard is forked before its group is made, so the
// census has the guard of each group in the list.
func TakeCensus(parent *cgroup.Group) *Census {
	guards, hidden := group.GuardsOf(parent, names.GuardsName)
	return &Census{guards, hidden, sync.OnceValues(proc.ReadLocks)}
}

// GuardOf returns the pid of a group's guard, or 0. hidden: it may be a process that is invisible.
func (c *Census) GuardOf(g *group.ControlGroup) (pid int, hidden bool) {
	switch {
	case c == nil:
		return g.GuardPID()
	case c.guards[g.ID] > 0:
		return c.guards[g.ID], false
	case g.Managed: // its guard is in the scope
		return g.GuardInScope()
	}
	return 0, c.hidden
}

func (c *Census) locks() (proc.Locks, error) {
	if c == nil {
		return proc.ReadLocks()
	}
	return c.read()
}
