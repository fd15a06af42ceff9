// SPDX-License-Identifier: Apache-2.0

//go:build linux

package idle

import (
	"fmt"
	"time"

	"github.com/mcpscope/mcpscope/cgroup"
)

// Attributes of a frozen payload. The first is for people only.
const (
	attrIdle = "user.mcpscope.idle"
	attrHeld = "user.mcpscope.held" // frozen by a person, so that input does not wake it
)

// Note describes a server that is frozen whenever it is idle.
type Note struct {
	Since  time.Time // frozen; zero while it runs
	Wakes  int       // by input, since its start
	Before uint64    // bytes of memory before the last reclaim; 0 where that is not counted
}

func (n Note) write(payload *cgroup.Group) {
	since := int64(0)
	if !n.Since.IsZero() {
		since = n.Since.UnixNano()
	}
	_ = payload.SetAttr(attrIdle, fmt.Sprint(since, n.Wakes, n.Before)) // for people only
}

// ReadNote returns the note that was written last; nil for a server that is never frozen.
func ReadNote(payload *cgroup.Group) *Note {
	text, is, _ := payload.Attr(attrIdle) // none, if it can't be read
	var n Note
	var since int64
	if read, _ := fmt.Sscan(text, &since, &n.Wakes, &n.Before); !is || read < 3 {
		return nil
	}
	if since != 0 {
		n.Since = time.Unix(0, since).UTC()
	}
	return &n
}

// Hold marks a payload that a person has frozen, and Release removes the mark.
func Hold(payload *cgroup.Group) error { return payload.SetAttr(attrHeld, "1") }

// Release is described with Hold.
func Release(payload *cgroup.Group) {
	_ = payload.RemoveAttr(attrHeld) // there may be none
}

// Held reports whether it is marked.
func Held(payload *cgroup.Group) bool {
	_, held, _ := payload.Attr(attrHeld) // not, if it can't be read
	return held
}
