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
