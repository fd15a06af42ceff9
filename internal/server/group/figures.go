// SPDX-License-Identifier: Apache-2.0

//go:build linux

package group

import (
	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// Figures reads the present figures; nil for a tree.
func (g *ControlGroup) Figures() *protocol.Figures {
	if g.tree != nil {
		return nil
	}
	f := &protocol.Figures{MemoryMax: g.Payload.Number("memory.max"), Limits: g.LimitsNow()}
	if counted := g.MemoryGroup(); counted != nil {
		f.MemoryPeak = counted.Number("memory.peak") // Linux 5.19
	}
	if f.MemoryPeak == nil {
		f.MemoryPeak = g.Payload.Number("memory.peak")
	}
	whole := g.Payload.Number("memory.oom.group")
	f.EndsWhole = whole != nil && *whole == 1
	f.OOMKills, _ = g.counted("memory.events", "oom_kill")
	var at *cgroup.Group
	f.PIDsRefused, at = g.counted("pids.events", "max")
	f.PIDsMax = at.Number("pids.max")
	return f
}

// counted reads the file of the payload or, without that controller, of the directory above it. It is 0 if
// neither has the file.
func (g *ControlGroup) counted(file, key string) (n uint64, at *cgroup.Group) {
	for _, at = range []*cgroup.Group{g.Payload, g.Top} {
		if b, err := at.Read(file); err == nil {
			n, _ = proc.Keyed(b, key)
			return n, at
		}
	}
	return 0, g.Payload
}

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
