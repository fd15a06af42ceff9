// SPDX-License-Identifier: Apache-2.0

//go:build linux

package group

import (
	"time"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// Payload is what a stop ends, and what it has cost.
type Payload interface {
	freeze.Target
	CPU() time.Duration
}

// Group is the seam between the backends and everything above them: a cgroup (ControlGroup) or, where there is none, a
// process tree.
type Group interface {
	Placed() protocol.Placed
	Members() Payload
	// Tagged are members that are neither there nor below the guard any more.
	Tagged() *freeze.Tree
	// Events is a descriptor with an event whenever the group may be empty, or -1.
	Events() int
	// Payload and leaf are the directories of members and of the guard; -1 for none.
	Directories() (payload, leaf int)
	// Figures are what the kernel counts; nil for a tree, of which it counts nothing.
	Figures() protocol.Figures
	// Limit makes a limit hold, and returns what the file has then.
	Limit(l cgroup.Limit, from protocol.Backend) (now string, err error)
	// Limited writes down which files hold limits.
	Limited(files []string)
	// Note writes down what is to be known about the start.
	Note(notes []string)
	// Ending writes down why the server is being stopped.
	Ending(why protocol.Cause)
	// Beside is the directory to look for orphans in, nil if there is none, and what is our own there.
	Beside() (parent *cgroup.Group, own string)
	// Adopt begins to have a manager take the group over, if one is to.
	Adopt()
	// Remove removes what is empty. A guard in a scope's own leaf is not in the way: its manager removes that later.
	Remove() error
}
