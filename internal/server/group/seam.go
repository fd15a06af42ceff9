// SPDX-License-Identifier: Apache-2.0

//go:build linux

package group

import (
	"time"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/spawn"
)

// The seam between the backends and everything above them: a group is a cgroup
// (controlGroup) or, where there is none, a process tree (launchedTree, ownedTree).

// Payload is what a ladder ends, and what it has cost.
type Payload interface {
	freeze.Target
	CPU() time.Duration
}

// group is what both processes know of a server's group.
type group interface {
	Ident() string
	Members() Payload
	// Tagged are members that are neither there nor below the supervisor any more.
	Tagged() *freeze.Tree
	// PayloadGroup is where the main process is to be born; nil for anywhere.
	PayloadGroup() spawn.Group
	// Figures are what the kernel counts; nil for a tree, of which it counts nothing.
	Figures() protocol.Figures
	// Beside is the directory to look for orphans in, nil if there is none, and what is our own there.
	Beside() (parent *cgroup.Group, own string)
}

// Launched is a group as its launcher sees it.
type Launched interface {
	group
	// Placed is what the supervisor has to be told, and the descriptors that go with it.
	Placed() (protocol.Placed, []int)
	// SupervisorGroup is where the supervisor is to be born; nil for anywhere.
	SupervisorGroup() spawn.Group
	// Standby is who stands by until there is a supervisor; nil if nobody does.
	Standby() *spawn.Standby
	// Killable tells whether whoever stands by can kill members.
	Killable() bool
	// Begun gets a pidfd of a supervisor that has not said anything yet, or of the guard that starts it, or -1.
	Begun(supervisor int)
	// Started gets pidfds of the supervisor and of its guard, if it has one.
	Started(supervisor, guard int) error
	// Adopt has a manager take the group over, if one is to and has not been asked yet. Started does so as well.
	Adopt()
	SupervisorStopped() bool
	// WakeSupervisor continues it, whether it was stopped or frozen.
	WakeSupervisor()
	KillSupervisor()
	// EndAll ends everyone whose supervisor is dead.
	EndAll() (freeze.Result, error)
	Remove() error
}

// Owned is a group as its supervisor sees it.
type Owned interface {
	group
	// Guard is a pidfd of a process that has to outlive the supervisor, or -1.
	Guard() int
	// Nested names the group that pid supervises, leavingName for a process that removes one; ""
	// if it does neither.
	Nested(pid int) string
	// Note says to others what is to be known about the start.
	Note(notes []string)
	// Limit makes a limit hold, and says what the file has then.
	Limit(l cgroup.Limit, from protocol.Backend) (now string, err error)
	// Limited says to others which files hold limits, and returns the group that has them.
	Limited(files []string) *cgroup.Group
	// Ending says to others why the server is being ended.
	Ending(why protocol.Cause)
	// Elsewhere tells whether pid has left for another cgroup.
	Elsewhere(pid int) bool
	// TagMembers tags the members that there are; what they start later has it from them.
	TagMembers() error
	// Leave removes the group, with the calling process in it, at that one's end.
	Leave()
}
