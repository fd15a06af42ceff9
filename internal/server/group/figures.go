// SPDX-License-Identifier: Apache-2.0

//go:build linux

package group

import (
	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// figures are what the kernel counts of a group, each read when it is asked for.
type figures struct{ *ControlGroup }

func (g *ControlGroup) Figures() protocol.Figures { return figures{g} }

// MemoryPeak is nil where the kernel does not count it (no memory controller, before
// Linux 5.19).
func (g figures) MemoryPeak() *uint64 {
	for _, at := range []*cgroup.Group{g.MemoryGroup(), g.Payload} {
		if at == nil {
			continue
		}
		if n, ok := at.Number("memory.peak"); ok {
			return &n
		}
	}
	return nil
}

// MemoryMax is nil where the payload has no limit of its own.
func (g figures) MemoryMax() *uint64 { return g.Number("memory.max") }

// OOMKills is how many members the kernel has killed for lack of memory.
func (g figures) OOMKills() uint64 {
	n, _ := g.counted("memory.events", "oom_kill")
	return n
}

// EndsWhole tells whether the kernel ends all of the group that has no memory any more.
func (g figures) EndsWhole() bool {
	whole, _ := g.Payload.Number("memory.oom.group") // without the file it does not
	return whole == 1
}

// PidsRefused is how often members could not fork for a limit, and which that is.
func (g figures) PidsRefused() (times uint64, limit *uint64) {
	times, at := g.counted("pids.events", "max")
	if n, ok := at.Number("pids.max"); ok {
		limit = &n
	}
	return times, limit
}

// counted looks above the payload too, which has no file of its own unless somebody has handed
// the controller down to it. It is 0 if the kernel does not count.
func (g figures) counted(file, key string) (n uint64, at *cgroup.Group) {
	for _, at = range []*cgroup.Group{g.Payload, g.Top} {
		if b, err := at.Read(file); err == nil {
			n, _ = proc.Keyed(b, key)
			return n, at
		}
	}
	return 0, g.Payload
}
