// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"slices"
	"time"

	"github.com/containerd/cgroups/v3/cgroup2"
	"github.com/containerd/cgroups/v3/cgroup2/stats"

	"github.com/mcpscope/mcpscope/internal/proc"
	"github.com/mcpscope/mcpscope/scope"
)

// The figures of a server come from containerd/cgroups. Where it lacks something, or can't be relied
// on, they come from package scope; it is all here:
//
//   - How many processes there are: by cgroup.procs of the whole subtree, which also tells a group
//     that has gone (the library returns zeros for it).
//   - Whether memory is counted at all, and has been from the start: a file that is not there reads
//     as 0, and so does one of a controller that came later.
//   - pids.events, and memory.events of the directory above where the payload has none.
//   - The pressure of memory where there is no memory controller: memory.pressure is there, but the
//     library looks at it after memory.stat only.
//   - memory.max and memory.high are not written by Update: it opens files non-blocking, and since
//     Linux 6.16 the kernel then sets such a limit without taking back what is above it.
//   - Files that Resources does not know (io.weight, memory.swap.high …), and limits of memory that
//     are taken away: it writes numbers.
//   - A tree, which has no group.

// figures are what a server has now. What can't be told is nil.
type figures struct {
	scope.Usage
	scope.Shortages // only if they were asked for
	memoryFrom      memorySource
}

// memorySource is where the figure of a server's memory comes from.
type memorySource string

const (
	// fromGroup is the kernel's count of what the server's group has had charged to it.
	fromGroup memorySource = "group"
	// fromScope is the same of the scope around that, which has the supervisor in it too.
	fromScope memorySource = "scope"
	// fromMembers is a sum over the processes, where the kernel has not counted from the start.
	fromMembers memorySource = "members"
)

// measure reads figures; with those of what the server lacked, if short. For a server that has
// ended since it was listed it returns an error.
func measure(s *scope.Listed, short bool) (f figures, err error) {
	if s.Directory() == "" {
		if f.Usage, err = s.Usage(); err != nil {
			return f, err
		}
		pids, err := s.Processes()
		f.addMembers(pids)
		return f, err
	}
	m, err := manager(s)
	if err != nil {
		return f, err
	}
	mask := cgroup2.StatCPU | cgroup2.StatMemory
	if short {
		mask |= cgroup2.StatMemoryEvents | cgroup2.StatIO
		f.Shortages = s.Shortages()
	}
	st, err := m.StatFiltered(mask)
	if err != nil {
		return f, err
	}
	f.CPU = time.Duration(st.CPU.UsageUsec) * time.Microsecond
	f.Limits = s.Limits()
	memory := countsMemory(m)
	f.countMemory(s, st.Memory, memory)
	if short {
		f.take(st, memory)
	}
	pids, err := s.Processes() // last: it tells that all of the above was there
	f.Processes = len(pids)
	if f.Memory == nil {
		f.addMembers(pids)
	}
	f.addContainers(s)
	return f, err
}

// countMemory takes the kernel's count, if there is one since the start.
func (f *figures) countMemory(s *scope.Listed, payload *stats.MemoryStat, counted bool) {
	switch dir := s.MemoryDirectory(); {
	case dir == "" || dir == s.Directory() && !counted:
		return
	case dir == s.Directory():
		f.memoryFrom = fromGroup
	default:
		around, err := cgroup2.Load("/", cgroup2.WithMountpoint(dir))
		if err != nil || !countsMemory(around) {
			return
		}
		st, err := around.StatFiltered(cgroup2.StatMemory)
		if err != nil {
			return
		}
		payload, f.memoryFrom = st.Memory, fromScope
	}
	if payload.Usage == 0 {
		return // no more than a zombie
	}
	f.Memory = &payload.Usage
	if payload.MaxUsage > 0 { // Linux 5.19
		f.PeakBytes = &payload.MaxUsage
	}
}

// addMembers sums up what the processes have: the private memory of each, and what the one with most
// has of files and shared memory, which is the same pages in many of them.
func (f *figures) addMembers(pids []int) {
	var private, shared uint64
	for _, pid := range pids {
		m, err := proc.ReadMemory(pid)
		if err != nil {
			continue // it has gone
		}
		private += m.Resident - min(m.Shared, m.Resident)
		shared = max(shared, m.Shared)
	}
	if sum := private + shared; sum > 0 {
		f.Memory, f.PeakBytes, f.memoryFrom = &sum, nil, fromMembers
	}
}

// take puts what the library knows in place of our own.
func (f *figures) take(st *stats.Metrics, memory bool) {
	if st.MemoryEvents != nil {
		f.OOMKills = st.MemoryEvents.OomKill
	}
	of := map[string]*stats.PSIStats{"cpu": st.CPU.PSI, "io": st.Io.PSI}
	if memory {
		of["memory"] = st.Memory.PSI
	}
	for what, psi := range of {
		if psi == nil || psi.Some == nil {
			continue
		}
		p := scope.Pressure{Avg10: psi.Some.Avg10, Avg60: psi.Some.Avg60, Some: seconds(psi.Some.Total)}
		if psi.Full != nil {
			p.Full = new(seconds(psi.Full.Total))
		}
		if f.Pressure == nil {
			f.Pressure = map[string]scope.Pressure{}
		}
		f.Pressure[what] = p
	}
}

func seconds(microseconds uint64) float64 {
	return (time.Duration(microseconds) * time.Microsecond).Seconds()
}

// manager is a server's group for the library. Its mount point is the directory itself: by a path a
// group that is removed and made again would be taken for this one.
func manager(s *scope.Listed) (*cgroup2.Manager, error) {
	return cgroup2.Load("/", cgroup2.WithMountpoint(s.Directory()))
}

// countsMemory tells whether the group has a memory controller.
func countsMemory(m *cgroup2.Manager) bool {
	all, err := m.Controllers()
	return err == nil && slices.Contains(all, "memory")
}
