// SPDX-License-Identifier: Apache-2.0

package orphan

import (
	"sync"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/names"
)

// Locks reads the locks of the host, once. Any user can have so many that it takes half a second, so a caller
// shares it among as many groups as it can.
type Locks func() (proc.Locks, error)

// NewLocks returns locks that are read when they are needed.
func NewLocks() Locks { return sync.OnceValues(proc.ReadLocks) }

// Census has the facts that are read once for all groups of a directory. So the cost of a sweep, or of a
// list, does not grow with the square of their number. A census may soon be out of date: a sweep takes one
// for a first look, and another one to judge the groups that look like orphans.
type Census struct {
	guards map[string]int // pids by the id of their server
	hidden bool           // some guard is invisible: see group.GuardsOf
	locks  Locks          // nil: Judge returns Suspect instead of reading them
}

// TakeCensus is called after the directory was listed: a guard is forked before its group is made, so the
// census has the guard of each group in the list.
func TakeCensus(parent *cgroup.Group, locks Locks) *Census {
	guards, hidden := group.GuardsOf(parent, names.GuardsName)
	return &Census{guards: guards, hidden: hidden, locks: locks}
}

// GuardOf returns the pid of a group's guard, or 0. hidden: it may be a process that is invisible.
func (c *Census) GuardOf(g *group.ControlGroup) (pid int, hidden bool) {
	switch {
	case c.guards[g.ID] > 0:
		return c.guards[g.ID], false
	case g.Managed: // its guard is in the scope
		return g.Guard().PIDInScope()
	}
	return 0, c.hidden
}
