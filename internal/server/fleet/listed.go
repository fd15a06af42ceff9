// SPDX-License-Identifier: Apache-2.0

//go:build linux

package fleet

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/backend"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/idle"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

func (s *Listed) subject() protocol.Subject {
	return protocol.Subject{ID: s.ID, Name: s.Name, Client: s.Client, Backend: s.Backend}
}

type State string

const (
	Running     State = "running"
	Terminating State = "terminating" // the reason is in Cause
	Frozen      State = "frozen"
	Idle        State = "idle" // frozen until its client writes
	Orphaned    State = "orphan"
)

// Listed is a running server. Processes of its user have written the fields, which can be any text.
type Listed struct {
	ID      string
	Name    string
	UID     int
	Backend protocol.Backend
	State   State
	Cause   protocol.Cause // of a server that is ending
	// Group is the directory of its group below the mount of cgroup2; "" for a tree.
	Group    string
	Unit     string // the scope's, "" if systemd does not know of it
	Client   protocol.ClientFacts
	Launcher int       // a pid, 0 without such a process
	Guard    int       // as Launcher
	Started  time.Time // zero if unknown
	Policy   protocol.Policy
	Idle     idle.Note

	members group.Payload
	group   *group.ControlGroup // nil for a tree
	tree    *backend.TreeGuard  // nil for a group
}

// Usage is the present use of resources; nil is unknown.
type Usage struct {
	PIDs      []int
	CPU       time.Duration
	Memory    *uint64 // bytes since the start
	WithGuard bool    // Memory includes the guard's
	protocol.Figures
}

func (s *Listed) Usage() (u Usage, err error) {
	u.PIDs, err = s.members.Members()
	u.CPU = s.members.CPU()
	if s.group == nil {
		return u, err
	}
	u.Figures = *s.group.Figures()
	if counted := s.group.MemoryGroup(); counted != nil {
		u.Memory, u.WithGuard = counted.Number("memory.current"), counted == s.group.Top
	}
	return u, err
}

func (s *Listed) Processes() ([]int, error) { return s.members.Members() }

func (s *Listed) Close() {
	if s.group != nil {
		s.group.Close()
	}
	if s.tree != nil {
		s.tree.Close()
	}
}

// read reads the attributes. The lock of an orphan is free: the attempt needs an armed group, whose
// launcher has the lock already.
func (s *Listed) read() error {
	g := s.group
	ending, _, _ := g.Payload.Attr(group.AttrEnding) // none, if it can't be read
	s.describe(g.Facts())
	s.Cause, s.Idle = protocol.Cause(ending), idle.ReadNote(g.Payload)
	var st unix.Stat_t
	if err := unix.Fstat(g.Payload.FD(), &st); err != nil {
		return fmt.Errorf("look at %s: %w", g.Payload, err)
	}
	s.UID = int(st.Uid)
	switch {
	case s.Launcher == 0 && s.Guard == 0 || g.Payload.TryLock(unix.LOCK_SH) == nil:
		s.State = Orphaned
	case group.Frozen(g.Payload):
		s.State = Frozen
		if s.Idle.Since > 0 && !idle.Held(g.Payload) {
			s.State = Idle
		}
	case s.Cause != "":
		s.State = Terminating
	default:
		s.State = Running
	}
	return nil
}

func (s *Listed) describe(f protocol.Facts) {
	s.Name, s.Policy, s.Client = f.Name, f.Policy, f.Client
	if f.Started != 0 {
		s.Started = time.Unix(0, f.Started).UTC()
	}
	if id, ok := group.ParseIdentity(f.Launcher); ok && id.Alive() {
		s.Launcher = id.PID
	}
}
