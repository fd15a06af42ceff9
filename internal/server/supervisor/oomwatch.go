// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"cmp"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/proc"
	"github.com/mcpscope/mcpscope/internal/server/report"
)

const (
	consumersMost = 8    // told of
	sampleMost    = 1024 // members looked at
)

// oomWatch watches a payload whose memory is limited. Who was big can't be asked when it has
// been killed, so members are looked at each time the kernel says that the limit was met, and
// once more when they are waited for: a zombie has its name yet, and wait4(2) tells the most that
// it had.
type oomWatch struct {
	events int // memory.events
	group  *cgroup.Group
	seen   map[int]report.Consumer
}

// watchOOM returns nil where the payload's memory is not limited.
func watchOOM(payload *cgroup.Group) *oomWatch {
	fd, err := payload.OpenFile("memory.events")
	if err != nil {
		return nil
	}
	return &oomWatch{events: fd, group: payload, seen: map[int]report.Consumer{}}
}

// handle looks at the members; the file has to be read before it tells of another change.
func (s *oomWatch) handle() {
	var b [512]byte
	_, _ = unix.Pread(s.events, b[:], 0) // what it says is looked at in the end
	pids, _ := s.group.Members()         // a partial list is better than none
	for _, pid := range pids[:min(len(pids), sampleMost)] {
		if now, err := proc.Resident(pid); err == nil {
			st, _ := proc.ReadStat(pid) // without a name, if it has just gone
			s.add(report.Consumer{PID: pid, Name: st.Comm, Bytes: now})
		}
	}
}

func (s *oomWatch) add(c report.Consumer) {
	old := s.seen[c.PID]
	c.Name, c.Bytes = cmp.Or(c.Name, old.Name), max(c.Bytes, old.Bytes)
	if c.Bytes > 0 {
		s.seen[c.PID] = c
	}
}

// zombies are the names of our children that have ended and that nobody has waited for.
func zombies() (map[int]string, error) {
	all := map[int]string{}
	pids, err := proc.Children(os.Getpid())
	for _, pid := range pids {
		if st, err := proc.ReadStat(pid); err == nil && st.State == 'Z' {
			all[pid] = st.Comm
		}
	}
	return all, err
}

// ownPeak is the most memory that we have had, in KiB. The main process was a copy of us before it
// executed anything, and wait4(2) counts that as its own.
func ownPeak() int64 {
	var used unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &used) // it can't fail
	return int64(used.Maxrss)
}

// biggest are the biggest of who was seen.
func (s *oomWatch) biggest() []report.Consumer {
	var all []report.Consumer
	for _, c := range s.seen {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b report.Consumer) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), a.PID-b.PID)
	})
	return all[:min(len(all), consumersMost)]
}
