// SPDX-License-Identifier: Apache-2.0

//go:build linux

package idle

import (
	"fmt"

	"github.com/mcpscope/mcpscope/cgroup"
)

// Attributes of a frozen payload.
const (
	attrIdle = "user.mcpscope.idle" // for people only
	AttrHeld = "user.mcpscope.held" // frozen by a person, so that input does not thaw it
)

// Note describes a server that is frozen whenever it is idle.
type Note struct {
	Since  int64  // frozen, Unix time in nanoseconds; 0 while it runs
	Wakes  int    // by events, since its start
	Before uint64 // bytes of memory before the last reclaim; 0 before the first
}

func (n *Note) write(payload *cgroup.Group) {
	_ = payload.SetAttr(attrIdle, fmt.Sprint(n.Since, n.Wakes, n.Before)) // for people only
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
