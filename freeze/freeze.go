//go:build linux

// Package freeze ends what is in a cgroup: freeze, thaw, kill, and the one stop
// ladder that everything uses.
//
// Its invariant: no signal reaches a process that was not a member of the group.
// It knows cgroups and processes, and neither systemd nor MCP; it decides nothing
// about when a group has to end.
package freeze

import (
	"time"

	"github.com/mcpscope/mcpscope/cgroup"
)

// frozenWithin bounds the wait for frozen 1. It takes 46 µs for one process and
// 4 ms for 50 busy ones; a member in uninterruptible sleep never freezes, and
// nothing may depend on it.
const frozenWithin = 50 * time.Millisecond

// Freeze writes cgroup.freeze and waits until the whole subtree is frozen. It
// returns false where that did not happen in 50 ms or the kernel can't (before
// Linux 5.2).
func Freeze(g *cgroup.Group) bool {
	if err := g.SetFrozen(true); err != nil {
		return false
	}
	events, err := g.Events()
	if err != nil {
		return false
	}
	defer events.Close()
	st, ok, _ := events.Wait(time.Now().Add(frozenWithin), -1, func(s cgroup.State) bool {
		return s.Frozen || !s.Populated
	})
	return ok && st.Frozen
}

// Thaw thaws the group and every group below it, which a member may have frozen
// itself.
func Thaw(g *cgroup.Group) error {
	return g.Each(func(sub *cgroup.Group) error {
		_ = sub.SetFrozen(false) // gone, or a kernel without the freezer: nothing to thaw
		return nil
	})
}
