// SPDX-License-Identifier: Apache-2.0

//go:build linux

package group

import (
	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// MemoryFile is a file of the memory controller.
const MemoryFile = "memory.current"

// CountMemory makes the kernel count the memory of a payload without members, if possible. Memory of a
// member stays with the group that it was charged to. A directory that a manager takes over cannot hand
// controllers down yet: a process is moved to it.
func (g *ControlGroup) CountMemory(from protocol.Backend) {
	if g.adopt == nil {
		_ = cgroup.EnableController(g.Payload, MemoryFile, g.OwnedAbove(from)) // it is not counted
	}
	if cgroup.HasController(g.memoryAt(), MemoryFile) {
		g.record(attrMemory, "counted")
	}
}

// memoryAt is the group that counts from the first moment. A scope includes its guard, which is small.
func (g *ControlGroup) memoryAt() *cgroup.Group {
	if g.Managed {
		return g.Top
	}
	return g.Payload
}

// MemoryGroup is the group whose memory is the server's since its start, or nil.
func (g *ControlGroup) MemoryGroup() *cgroup.Group {
	if _, counted, _ := g.Payload.Attr(attrMemory); !counted {
		return nil
	}
	return g.memoryAt()
}
