// SPDX-License-Identifier: Apache-2.0

//go:build linux

package group

import (
	"time"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// Payload is the Target of a stop, and its use of CPU time.
type Payload interface {
	freeze.Target
	CPU() time.Duration
}

// Group hides the backends: it is a cgroup (ControlGroup) or a process tree.
type Group interface {
	Placed() protocol.Placed
	Members() Payload
	// Tagged are members that left the group and do not descend from the guard.
	Tagged() *freeze.Tree
	// Events is a descriptor with an event when the group may be empty, or -1.
	Events() int
	// Payload and leaf are the directories of members and of the guard; -1 for none.
	Directories() (payload, leaf int)
	// Figures is nil for a tree.
	Figures() *protocol.Figures
	// Limit sets a limit, and returns the new content of the file.
	Limit(l cgroup.Limit, from protocol.Backend) (now string, err error)
	// Limited records which files have limits.
	Limited(files []string)
	// Note records remarks on the start.
	Note(notes []string)
	// Ending records the cause of a stop.
	Ending(why protocol.Cause)
	// Beside is the directory to sweep, or nil, and the name of this group in it.
	Beside() (parent *cgroup.Group, own string)
	// Adopt asks a manager to take the group over, if it is meant to be a scope.
	Adopt()
	// Remove removes an empty group, but not a scope that its manager has.
	Remove() error
}
