//go:build linux

package main

import (
	"slices"
	"time"

	"github.com/containerd/cgroups/v3/cgroup2"
	"github.com/containerd/cgroups/v3/cgroup2/stats"

	"github.com/mcpscope/mcpscope/scope"
)

// The figures of a server come from containerd/cgroups. Where it lacks something, or can't be relied
// on, they come from package scope; it is all here:
//
//   - How many processes there are: by cgroup.procs of the whole subtree, which also tells a group
//     that has gone (the library returns zeros for it).
//   - Whether memory is counted at all: a file that is not there reads as 0.
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
}

// measure reads figures; with those of what the server lacked, if short. For a server that has
// ended since it was listed it returns an error.
func measure(s *scope.Listed, short bool) (f figures, err error) {
	if s.Directory() == "" {
		f.Usage, err = s.Usage()
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
	if memory {
		f.Memory = &st.Memory.Usage
		if st.Memory.MaxUsage > 0 { // Linux 5.19
			f.PeakBytes = &st.Memory.MaxUsage
		}
	}
	if short {
		f.take(st, memory)
	}
	pids, err := s.Processes() // last: it tells that all of the above was there
	f.Processes = len(pids)
	return f, err
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
			full := seconds(psi.Full.Total)
			p.Full = &full
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
