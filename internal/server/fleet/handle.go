// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/kernel/linux"
	"github.com/mcpscope/mcpscope/internal/server/backend"
	"github.com/mcpscope/mcpscope/internal/server/client"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/idle"
	"github.com/mcpscope/mcpscope/internal/server/policy"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// Handle is what is open of a server: its members, and its group or the guard of its tree. All of it is asked
// for anew.
type Handle struct {
	members freeze.Target
	group   *group.ControlGroup // nil for a tree
	tree    *backend.TreeGuard  // nil for a group
}

// isTree reports whether the server has no group, but a process tree.
func (h *Handle) isTree() bool { return h.group == nil }

// Usage reads the present use of resources. An error means that the members are unknown.
func (h *Handle) Usage() (u Usage, err error) {
	u.PIDs, err = h.members.Members()
	u.CPU, _ = h.members.CPU() // 0, if it has ended
	if h.isTree() {
		return u, err
	}
	u.Figures = h.group.Limits().Figures()
	if counted := h.group.Limits().MemoryGroup(); counted != nil {
		u.Memory = counted.Number("memory.current")
		u.WithGuard = h.group.Managed
	}
	return u, err
}

// Directories are the group of the members, and the one whose memory is the server's since its start. They
// are "" for a tree, and the second one where the kernel does not count that.
func (h *Handle) Directories() (members, memory string) {
	if h.isTree() {
		return "", ""
	}
	if counted := h.group.Limits().MemoryGroup(); counted != nil {
		memory = counted.Path()
	}
	return h.group.Payload.Path(), memory
}

// Processes returns the pids of the members.
func (h *Handle) Processes() ([]int, error) { return h.members.Members() }

// Close closes the descriptors.
func (h *Handle) Close() {
	if !h.isTree() {
		h.group.Close()
	} else {
		h.tree.Close()
	}
}

// Notes are remarks on the start, such as the reason for a weaker backend.
func (h *Handle) Notes() []string {
	if h.isTree() {
		return h.tree.Config.Output.Notes
	}
	text, _, _ := h.group.Payload.Attr(group.AttrNotes) // none, if it can't be read
	return strings.FieldsFunc(text, func(r rune) bool { return r == '\n' })
}

// Tree lists the members, children below their parents.
func (h *Handle) Tree() ([]Member, error) {
	pids, err := h.Processes()
	if err != nil {
		return nil, err
	}
	return treeOf(pids), nil
}

// isFrozenByPerson is false for an idle server, which its client's input thaws.
func (h *Handle) isFrozenByPerson() bool {
	return group.Frozen(h.members) && (h.isTree() || idle.Held(h.group.Payload))
}

// awaitRoom waits until members can write. A freeze interrupts a write(2) that waits for the client, and
// not every runtime writes the rest (CPython issue 85393).
func (h *Handle) awaitRoom() error {
	pids, err := h.Processes()
	if err != nil {
		return err
	}
	deadline := time.Now().Add(frozenWithin)
	for _, pid := range pids {
		for _, number := range []int{1, 2} {
			if !client.AwaitRoom(pid, number, time.Until(deadline)) {
				return fmt.Errorf("freeze: the client does not read what process %d writes, "+
					"and a freeze can lose a part of it: %w", pid, unix.EAGAIN)
			}
		}
	}
	return nil
}

// awaitEnd waits until nothing of the server is left, its guard included.
func (h *Handle) awaitEnd(deadline time.Time) (ended bool, err error) {
	if h.isTree() && h.tree.IsWatcher {
		return freeze.AwaitEmpty(h.members, deadline)
	}
	if h.isTree() { // the guard stays until nothing is left, but one that was killed leaves members
		if !linux.AwaitUntil(deadline, h.tree.PIDFD, unix.POLLIN) {
			return false, nil
		}
		return freeze.AwaitEmpty(h.members, deadline)
	}
	if ended, err = freeze.AwaitEmpty(h.group.Top(), deadline); !ended {
		return false, err
	}
	if guard := h.group.Guard().Open(); guard >= 0 { // it removes the group
		defer unix.Close(guard)
		_ = linux.AwaitWithin(guard, unix.POLLIN, policy.ReactWithin) // no process is left anyway
	} else {
		h.group.Manager().AwaitRemoval()
	}
	return freeze.AwaitEmpty(h.group.Membership().Tagged(), deadline) // those that have moved elsewhere
}

// holdsForAll refuses a memory limit if the kernel does not count from the start: memory stays with the
// group that it was charged to.
func (h *Handle) holdsForAll(l cgroup.Limit) error {
	if l.None() || !cgroup.OfMemory(l.File) || h.group.Limits().MemoryGroup() != nil {
		return nil
	}
	if err := cgroup.EnableController(h.group.Payload, l.File, h.group.Limits().OwnedAbove()); err != nil {
		return group.LimitError(l, err)
	}
	return &protocol.LimitError{
		Text: fmt.Sprintf("set %s: memory used before now was not accounted to this group", l),
		Step: "start it with the limit: as a flag of mcpscope run or gateway, or in mcpscope.toml",
	}
}

// findNextGuard looks for the guard in the place of a killed one, in a tree. Where the launcher has forked
// another one, that gets requests from now on. It may be a child of the launcher, and is no member.
func (h *Handle) findNextGuard(of *Listed) {
	if !h.isTree() || h.tree.IsWatcher || !linux.Ended(h.tree.PIDFD) {
		return
	}
	next := backend.FindTree(of.UID, of.Placed.ID)
	if next == nil {
		return
	}
	h.tree.Close()
	h.tree = next
	h.members = next.Tree()
}
