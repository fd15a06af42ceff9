// SPDX-License-Identifier: Apache-2.0

//go:build linux

package idle

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/server/client"
	"github.com/mcpscope/mcpscope/internal/server/group"
)

// Rest freezes a server by the policy, and thaws it.
type Rest struct {
	*Policy
	Group  *group.ControlGroup
	Client *client.Side

	note   Note
	breath bool // the next thaw is one
}

// Act does what is due, but for a thaw. Freeze means that the members are frozen now.
func (r *Rest) Act(now time.Time) Decision {
	switch d := r.Look(r, now); {
	case d == Freeze && (!freeze.Freeze(r.Group.Payload) || !r.Confirm(r, now)):
		r.thaw()
		return Stay
	case d == Freeze:
		if counted := r.Group.MemoryGroup(); r.Used && counted != nil {
			r.note.Before, _ = counted.Number("memory.current") // 0 is unknown
		}
		r.note.Since = now.UnixNano()
		r.note.write(r.Group.Payload)
		return d
	case d == Reclaim && !r.reclaim():
		r.Reclaimed()
		return Stay
	default:
		r.breath = d == Thaw
		return d
	}
}

// reclaimStep takes about 20 ms: a message for the server can come meanwhile.
const reclaimStep = "4M"

// reclaim gives a part of the memory back, and returns false after the last part. Without swap only file pages
// could be, and those of a runtime are shared: ten servers gave nothing back.
func (r *Rest) reclaim() bool {
	var of unix.Sysinfo_t
	counted := r.Group.MemoryGroup()
	return counted != nil && unix.Sysinfo(&of) == nil && of.Freeswap > 0 &&
		counted.Write("memory.reclaim", reclaimStep) == nil // Linux 5.19; EAGAIN: the kernel finds no more
}

// Wake thaws the members.
func (r *Rest) Wake(now time.Time) {
	if !r.breath { // written before the server can answer, so that no view is wrong
		r.note.Wakes++
		r.note.Since = 0
		r.note.write(r.Group.Payload)
	}
	r.thaw()
	r.Thawed(r.breath, now)
	r.breath = false
}

// thaw leaves members frozen that a person has frozen.
func (r *Rest) thaw() {
	if !Held(r.Group.Payload) {
		_ = r.Group.Payload.SetFrozen(false) // gone is as good
	}
}
