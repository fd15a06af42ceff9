//go:build linux

package scope

import (
	"time"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/resources"
	"github.com/mcpscope/mcpscope/spawn"
	"github.com/mcpscope/mcpscope/tree"
)

// The seam between the backends and everything above them: a group is a cgroup
// (controlGroup) or, where there is none, a process tree (launchedTree, ownedTree).

// payload is what a ladder ends, and what it has cost.
type payload interface {
	freeze.Target
	CPU() time.Duration
}

// group is what both processes know of a server's group.
type group interface {
	ident() string
	members() payload
	// marked are members that are neither there nor below the supervisor any more.
	marked() *tree.Tree
}

// launched is a group as its launcher sees it.
type launched interface {
	group
	// placed is what the supervisor has to be told, and the descriptors that go with it.
	placed() (placed, []int)
	// cradle is where the supervisor is to be born; nil for anywhere.
	cradle() spawn.Group
	// started gets pidfds of the supervisor and of its guard, if it has one.
	started(supervisor, guard int) error
	supervisorStopped() bool
	// wakeSupervisor continues it, whether it was stopped or frozen.
	wakeSupervisor()
	killSupervisor()
	// endAll ends everyone whose supervisor is dead.
	endAll() (freeze.Result, error)
	remove() error
}

// owned is a group as its supervisor sees it.
type owned interface {
	group
	// birthplace is where the main process is to be born; nil for anywhere.
	birthplace() spawn.Group
	// guard is a pidfd of a process that has to outlive the supervisor, or -1.
	guard() int
	// nested names the group that pid supervises, leavingName for a process that removes one; ""
	// if it does neither.
	nested(pid int) string
	// beside is the directory to look for orphans in, nil if there is none, and what is our own there.
	beside() (parent *cgroup.Group, own string)
	// stopGrace is the term grace that whoever asks for a stop wants it to have.
	stopGrace() (grace time.Duration, ok bool)
	// note says to others what is to be known about the start.
	note(notes []string)
	// limit makes a limit hold, and says what the file has then.
	limit(l resources.Limit, from Backend) (now string, err error)
	// ending says to others why the server is being ended.
	ending(why Cause)
	// elsewhere tells whether pid has left for another cgroup.
	elsewhere(pid int) bool
	// mark marks the members that there are; what they start later has it from them.
	mark() error
	// figures are what the kernel counts; nil for a tree, of which it counts nothing.
	figures() *figures
	// leave removes the group, with the calling process in it, at that one's end.
	leave()
}
