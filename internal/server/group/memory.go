// SPDX-License-Identifier: Apache-2.0

//go:build linux

package group

import (
	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// MemoryFile is one of the controller that counts memory.
const MemoryFile = "memory.current"

// CountMemory has the kernel count the payload's memory, where that can be had. It is for a payload
// without members: what they have already stays with the group that it was charged to. In a new group
// it costs least, for then no process has to be moved to the new controller. A directory that is to be taken over has to
// take a process as well, so it can't hand controllers down.
func (g *ControlGroup) CountMemory(from protocol.Backend) {
	switch {
	case g.adopt == nil && cgroup.EnableController(g.Payload, MemoryFile, g.OwnedAbove(from)) == nil:
		_ = g.Payload.SetAttr(attrMemory, protocol.PayloadName) // for people only
	case g.Managed && cgroup.HasController(g.Top, MemoryFile):
		_ = g.Payload.SetAttr(attrMemory, ".") // as above
	}
}

// countLate is for a scope whose manager has it, so that its directory may hand controllers down: from now on the payload's memory is
// counted, but for the server's first milliseconds.
func (g *ControlGroup) countLate(from protocol.Backend) {
	if cgroup.EnableController(g.Payload, MemoryFile, g.OwnedAbove(from)) == nil {
		_ = g.Payload.SetAttr(attrMemory, countedLate) // as above
	}
}

const countedLate = "late"

// CountedLate tells whether the payload's memory is counted from its first milliseconds on.
func (g *ControlGroup) CountedLate() bool {
	where, _, _ := g.Payload.Attr(attrMemory) // none, if it can't be read
	return where == countedLate
}

// MemoryGroup is the group whose memory is all that the server has had since its start; nil if there is
// none.
func (g *ControlGroup) MemoryGroup() *cgroup.Group {
	where, _, _ := g.Payload.Attr(attrMemory) // none, if it can't be read
	switch where {
	case protocol.PayloadName:
		return g.Payload
	case ".", countedLate:
		return g.Top
	}
	return nil
}
