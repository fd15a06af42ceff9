// SPDX-License-Identifier: Apache-2.0

// Package fleet lists the running servers of a user, from the kernel alone, and inspects, limits, freezes
// and stops them.
package fleet

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/parallel"
	"github.com/mcpscope/mcpscope/internal/server/backend"
	"github.com/mcpscope/mcpscope/internal/server/causes"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/idle"
	"github.com/mcpscope/mcpscope/internal/server/orphan"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// State is the state of a server, as people and scripts read it.
type State string

const (
	Running     State = "running"
	Terminating State = "terminating" // the reason is in Cause
	Frozen      State = "frozen"
	Idle        State = "idle" // frozen until its client writes
	Orphaned    State = "orphan"
	Kept        State = "kept" // no server, but what has outlived one: see Listed.Kept
)

// Listed is a running server. Processes of its user have written the fields, which can be any text.
type Listed struct {
	Facts  protocol.Facts
	Placed protocol.Placed
	UID    int
	State  State
	Cause  causes.Cause // of a server that is ending
	// Group is the directory of its group below the mount of cgroup2; "" for a tree.
	Group    string
	Unit     string    // the scope's, "" if systemd does not know of it
	Launcher int       // a pid, 0 without such a process
	Guard    int       // a pid, 0 without such a process
	Started  time.Time // zero if unknown
	Idle     idle.Note
	// Kept is nil for a server. Otherwise this is what a pattern keeps, of a server that may have ended. The
	// facts are those of that server, but for the name, which is the program's.
	Kept *protocol.Kept

	Handle Handle
}

// Usage is the present use of resources; nil is unknown.
type Usage struct {
	PIDs      []int
	CPU       time.Duration
	Memory    *uint64 // bytes since the start
	WithGuard bool    // Memory includes the guard's
	protocol.Figures
}

// MemoryNow is the memory as every view has it: the kernel's count since the start or, without that, a sum
// over the members. It is 0 if it is unknown.
func (u *Usage) MemoryNow() (bytes uint64, isSum bool) {
	isCounted := u.Memory != nil && *u.Memory > 0 // a zombie has no memory
	if isCounted {
		return *u.Memory, false
	}
	return proc.SumMemory(u.PIDs), true
}

// ListOwn is List for the calling user.
func ListOwn() ([]*Listed, error) { return List(group.CallingUser()) }

// List finds the servers of a choice of users, and what is kept of some, the oldest first. It leaves out a
// server that ends meanwhile. The caller closes each.
func List(users group.Users) ([]*Listed, error) {
	if err := users.CheckVisible(); err != nil {
		return nil, err
	}
	var all []*Listed
	locks := orphan.NewLocks()
	visit := group.Visit{Users: users}
	visit.Groups = func(above string, parent *cgroup.Group, dirs []string) error {
		seen := orphan.TakeCensus(parent, locks)
		found := make([]*Listed, len(dirs))
		errs := make([]error, len(dirs)) // a server can make its own group unreadable
		parallel.Each(len(dirs), func(i int) {
			s, err := listOne(parent, above, dirs[i], seen)
			found[i] = s
			errs[i] = proc.IgnoreGone(err)
		})
		for _, s := range found {
			if s != nil {
				all = append(all, s)
			}
		}
		return errors.Join(errs...)
	}
	visit.Kept = func(above string, parent *cgroup.Group, dir string) error {
		s, err := listKept(parent, above, dir)
		if s != nil {
			all = append(all, s)
		}
		return proc.IgnoreGone(err)
	}
	err := visit.All()
	grouped := map[backend.Owned]bool{}
	for _, s := range all {
		grouped[backend.Owned{UID: s.UID, ID: s.Placed.ID}] = true
	}
	backend.EachTree(users, grouped, func(t *backend.TreeGuard) {
		s := listTree(t)
		if s != nil {
			all = append(all, s)
		}
	})
	slices.SortFunc(all, func(a, b *Listed) int {
		return cmp.Or(a.Started.Compare(b.Started), strings.Compare(a.Placed.ID, b.Placed.ID))
	})
	return all, err
}

// listTree returns nil for a server that has ended, whose page its watcher has not closed yet.
func listTree(t *backend.TreeGuard) *Listed {
	opened := Handle{members: t.Tree(), tree: t}
	s := &Listed{Placed: t.Config.Group, Handle: opened, UID: t.UID, Cause: t.Cause}
	if t.IsWatcher {
		s.describe(t.Config.Facts)
		s.Launcher = t.PID
		if !group.Populated(s.Handle.members) {
			t.Close()
			return nil
		}
		return s
	}
	s.Guard = t.PID
	s.describe(t.Config.Facts)
	if t.Abandoned() {
		s.State = Orphaned
	}
	return s
}

// listOne returns nil for a directory that is no server's. It keeps few descriptors: there may be more
// servers than descriptors.
func listOne(parent *cgroup.Group, above, dir string, seen *orphan.Census) (*Listed, error) {
	g, err := group.Open(parent, dir)
	armed := false
	if err == nil {
		_, armed, err = g.Payload.Attr(group.AttrArmed)
	}
	g.Backend = backend.OfGroup(above, g.Managed)
	s := &Listed{Placed: g.Placed, Handle: Handle{group: g, members: g.Payload}, Group: above + "/" + dir}
	if err == nil && g.Managed && g.Manager().HasScope() {
		s.Unit = dir
	}
	if err == nil && armed {
		s.Guard, _ = seen.GuardOf(g)
		if s.Guard == 0 {
			s.Guard, _ = g.Guard().PID() // it has just begun
		}
		s.UID = g.Membership().Owner()
		s.Cause = g.Attributes().Cause()
		s.Idle = idle.ReadNote(g.Payload)
		s.describe(g.Attributes().Facts())
		var verdict orphan.Verdict
		verdict, err = orphan.Judge(g, parent, seen, orphan.ToList)
		if verdict == orphan.Orphan {
			s.State = Orphaned
		}
	}
	if err != nil || !armed || s.isEmptied() {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Close closes what is open of the server.
func (s *Listed) Close() { s.Handle.Close() }

// isEmptied reports whether nothing of a server is left, so that its group is about to be removed: an empty
// scope by systemd, and a group whose launcher has returned by a helper.
func (s *Listed) isEmptied() bool {
	g := s.Handle.group
	if s.State == Orphaned {
		return g.Managed && !group.Populated(g.Top())
	}
	return s.Launcher == 0 && !group.Populated(g.Payload)
}

// describe sets the facts of a server, its living launcher and guard, and its state as if it were no orphan.
func (s *Listed) describe(f protocol.Facts) {
	s.Facts = f
	s.State = Running
	switch frozen := group.Frozen(s.Handle.members); {
	case frozen && s.Idle.Since > 0 && !idle.Held(s.Handle.group.Payload): // no tree
		s.State = Idle
	case frozen:
		s.State = Frozen
	case s.Cause != "":
		s.State = Terminating
	}
	if f.Started != 0 {
		s.Started = time.Unix(0, f.Started).UTC()
	}
	if group.Alive(f.Launcher) {
		s.Launcher = f.Launcher.PID
	}
	if s.Guard == 0 && group.Alive(f.Guard) {
		s.Guard = f.Guard.PID
	}
}
