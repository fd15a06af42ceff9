// SPDX-License-Identifier: Apache-2.0

//go:build linux

package idle

import (
	"fmt"
	"time"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/server/client"
	"github.com/mcpscope/mcpscope/internal/server/group"
)

// Attributes of a payload.
const (
	attrIdle = "user.mcpscope.idle" // a Note, for people only
	AttrHeld = "user.mcpscope.held" // frozen by a person, so that input does not thaw it
)

// Note describes a server that is frozen whenever it is idle.
type Note struct {
	Since  int64  // frozen, Unix time in nanoseconds; 0 while it runs
	Wakes  int    // by events, since its start
	Before uint64 // bytes of memory before the last reclaim; 0 is unknown
}

// ReadNote returns the note that was written last.
func ReadNote(payload *cgroup.Group) (n Note) {
	text, _, _ := payload.Attr(attrIdle) // none, if it can't be read
	_, _ = fmt.Sscan(text, &n.Since, &n.Wakes, &n.Before)
	return n
}

// Held reports whether a person has frozen the payload.
func Held(payload *cgroup.Group) bool {
	_, held, _ := payload.Attr(AttrHeld) // not, if it can't be read
	return held
}

// Rest is a server with its policy.
type Rest struct {
	*Policy
	Group  *group.ControlGroup
	Client *client.Side
	note   Note
	// mappings are those to reclaim, nil before they are listed.
	mappings []mapping
}

// Freeze is a part of Server.
func (r *Rest) Freeze() bool {
	r.mappings = nil
	return freeze.Freeze(r.Group.Payload)
}

// Thaw leaves members frozen that a person has frozen.
func (r *Rest) Thaw() {
	if !Held(r.Group.Payload) {
		_ = r.Group.Payload.SetFrozen(false) // gone is as good
	}
}

// MarkFrozen makes it visible that the members are frozen.
func (r *Rest) MarkFrozen(now time.Time) {
	if r.Used {
		r.note.Since = now.UnixNano()
		if counted := r.Group.MemoryGroup(); counted != nil {
			if n := counted.Number("memory.current"); n != nil {
				r.note.Before = *n
			}
		}
	}
	r.writeNote(r.note.Since)
}

// Wake thaws the members.
func (r *Rest) Wake(now time.Time) {
	if !r.breath { // written before the server can answer, so that no view is wrong
		r.note.Wakes++
		r.writeNote(0)
	}
	r.Thaw()
	r.Thawed(now)
}

func (r *Rest) writeNote(since int64) {
	_ = r.Group.Payload.SetAttr(attrIdle, fmt.Sprint(since, r.note.Wakes, r.note.Before)) // for people only
}
