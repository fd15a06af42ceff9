// SPDX-License-Identifier: Apache-2.0

//go:build linux

package group

import (
	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

type figures struct{ *ControlGroup }

func (g *ControlGroup) Figures() protocol.Figures { return figures{g} }

// MemoryPeak is nil without the memory controller, and before Linux 5.19.
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

func (g figures) MemoryMax() *uint64 { return g.Number("memory.max") }

// OOMKills is the number of members that the kernel has killed for lack of memory.
func (g figures) OOMKills() uint64 {
	n, _ := g.counted("memory.events", "oom_kill")
	return n
}

// EndsWhole reports whether the kernel kills the whole group when it is out of memory.
func (g figures) EndsWhole() bool {
	whole, _ := g.Payload.Number("memory.oom.group") // without the file it does not
	return whole == 1
}

// PidsRefused is the number of failed forks, and the limit.
func (g figures) PidsRefused() (times uint64, limit *uint64) {
	times, at := g.counted("pids.events", "max")
	if n, ok := at.Number("pids.max"); ok {
		limit = &n
	}
	return times, limit
}

// counted reads the file of the payload or, without that controller, of the directory above it. It is 0 if
// neither has the file.
func (g figures) counted(file, key string) (n uint64, at *cgroup.Group) {
	for _, at = range []*cgroup.Group{g.Payload, g.Top} {
		if b, err := at.Read(file); err == nil {
			n, _ = proc.Keyed(b, key)
			return n, at
		}
	}
	return 0, g.Payload
}
