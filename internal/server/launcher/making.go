// SPDX-License-Identifier: Apache-2.0

package launcher

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/kernel/linux"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/server/admission"
	"github.com/mcpscope/mcpscope/internal/server/backend"
	"github.com/mcpscope/mcpscope/internal/server/client"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/guard"
	"github.com/mcpscope/mcpscope/internal/server/helper"
	"github.com/mcpscope/mcpscope/internal/server/names"
	"github.com/mcpscope/mcpscope/internal/server/page"
	"github.com/mcpscope/mcpscope/internal/server/policy"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/text"
)

// making is the making of a group for a server that this process takes over, or plans.
type making struct {
	server    *helper.Server
	wanted    *Server
	client    *client.Side
	unlimited []error // limits that could not be applied, with OfGateway.LimitsMayFail
}

// newMaking fills in the configuration that a helper needs, but for the group.
func newMaking(s *Server) *making {
	c := protocol.NewConfig()
	c.Group.ID = names.NewID()
	c.Facts.Name = s.Name
	c.Argv = s.Main.Argv
	c.Facts.Policy = s.Policy
	c.Facts.Started = time.Now().UnixNano()
	c.Facts.Recipe = s.Gateway.Recipe
	c.Facts.Origin = s.Origin
	c.Output.Verbose = s.Output.Messages.Verbose
	c.Replace = s.Replace
	c.Keep = s.Keep
	c.Output.Report = s.Output.Report
	c.Output.Stderr = protocol.StderrInherit
	c.Output.Quiet = s.Output.Messages.Quiet
	c.Facts.Client = s.identifyClient()
	c.Path = s.Main.Path
	c.Facts.Engine = protocol.EngineOf(s.Main.Argv)
	c.Facts.Launcher, _ = group.Identify(os.Getpid()) // no backend works without /proc
	if s.Gateway.Guard > 0 {
		c.Facts.Guard, _ = group.Identify(s.Gateway.Guard) // as far as it can be seen
	}
	return &making{server: &helper.Server{Config: c, Env: s.Env}, wanted: s}
}

// identifyClient describes the client. One that is not our parent may have ended, and its pid be another's.
func (s *Server) identifyClient() protocol.ClientFacts {
	if of := s.Gateway.Client; of.PID != 0 {
		return protocol.ClientFacts{PID: of.PID, Start: of.Start, Name: s.ClientName}
	}
	facts := protocol.ClientFacts{PID: os.Getppid()}
	parent, _ := proc.ReadStat(facts.PID) // without a name, if it can't be read
	facts.Start = parent.StartTime
	facts.Name = cmp.Or(s.ClientName, parent.Comm)
	return facts
}

// openPage makes the page.
func (m *making) openPage() error {
	p, errno := page.New()
	if errno != 0 {
		return fmt.Errorf("make the page: %w", errno)
	}
	m.server.Page = p
	executable := m.wanted.Executable
	program, err := unix.Open(executable, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", executable, err)
	}
	self, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return fmt.Errorf("open pidfd: %w", err)
	}
	c := m.server.Config
	p.Plan.IsByMain = true
	p.FD.Program = int32(program)
	p.FD.Launcher = int32(self)
	p.FD.Keep = int32(c.Output.Report)
	p.Order.EOFGrace = int64(c.Facts.Policy.EOFGrace)
	p.Order.TermGrace = int64(c.Facts.Policy.TermGrace)
	if c.Facts.Engine != "" {
		p.Order.EndWithin = int64(protocol.EndWithin(c))
	}
	p.Order.Replaces = c.Replace
	p.Order.Keeps = len(c.Keep.Patterns) > 0
	side := m.client
	p.FD.Stdin = int32(side.Stdin)
	p.FD.Stdout = int32(side.Stdout)
	p.FD.Input = int32(side.Server.Input)
	p.FD.Room = [2]int32{int32(side.Server.Room[0]), int32(side.Server.Room[1])}
	p.FD.Client = int32(side.PIDFD)
	p.FD.Terminal = int32(side.Server.Terminal)
	return nil
}

// acquire makes a group with its guard and limits. It tries the places in turn, the best first.
func (m *making) acquire() error {
	s := m.wanted
	c := m.server.Config
	err := s.eachPlace(func(p backend.Place, missed []error) error {
		m.noteFreeMemory(p)
		c.Facts.Client.Unit, _, _ = systemd.UnitOf(p.Path, os.Getuid()) // none, outside of any
		if err := m.makeGroup(p); err != nil {
			return err
		}
		m.notePlace(missed)
		return nil
	})
	if err != nil {
		return err
	}
	c.Group = m.server.Group.Placed
	m.noteKeep()
	if c.Group.Backend == names.Tree {
		m.server.Page.Order.Tag = uint64(group.TagOf(c.Group.ID))
	}
	if s.Gateway.Unproven {
		return m.server.Group.Attributes().Disarm() // a sweep leaves such a group alone
	}
	m.unlimited, err = limit(m.server, s.Limits, s.Gateway.LimitsMayFail) // before there is a main process
	return err
}

// notePlace adds notes on a place, for people who wonder about the backend.
func (m *making) notePlace(missed []error) {
	notes := slices.Clone(m.wanted.Output.Notes)
	for _, err := range missed {
		notes = append(notes, "not available: "+text.JoinLines(err))
	}
	m.server.Config.Output.Notes = append(notes, m.server.Config.Output.Notes...)
}

// noteKeep says that nothing is kept where that is so: out of a tree no process can be moved.
func (m *making) noteKeep() {
	on := m.server.Page
	isRefused := on.Order.Keeps && m.server.Config.Group.Backend == names.Tree
	if isRefused {
		on.Order.Keeps = false
		m.server.Note("nothing is kept: with the backend tree no process can leave the server")
	}
}

// noteFreeMemory: a server that is taken over does not wait for free memory. Its client has started it, and
// its execve is held.
func (m *making) noteFreeMemory(p backend.Place) {
	if m.wanted.MinFree == 0 {
		return
	}
	above := p.AboveServer()
	defer above.Close() // a directory, or nil
	free, err := admission.ReadFree(p.Root, above)
	if err == nil && free.Bytes < m.wanted.MinFree {
		m.server.Note(fmt.Sprintf("started with less free memory than min-free (%d of %d bytes): "+
			"below a gateway it does not wait", free.Bytes, m.wanted.MinFree))
	}
}

// limit applies limits to the group of a server. If they may fail, one that can't be applied is a note, and
// among the unlimited.
func limit(s *helper.Server, limits cgroup.Limits, mayFail bool) (unlimited []error, err error) {
	if err := s.Group.Limits().KillWholeInSession(); err != nil {
		s.Note("out of memory the kernel kills one process of it: " + text.JoinLines(err))
	}
	for _, l := range limits.Files {
		_, err := s.Group.Limits().Set(l)
		if err == nil {
			continue
		}
		if !mayFail {
			return unlimited, err
		}
		s.Note("not limited: " + text.JoinLines(err))
		unlimited = append(unlimited, err)
	}
	return unlimited, nil
}

// makeGroup makes a group in a place, with its guard first: from then on the death of this process leaves
// nothing.
func (m *making) makeGroup(p backend.Place) error {
	if err := m.openDirectories(p.Above); err != nil {
		return err
	}
	defer m.closeDirectories()
	s := m.server
	s.Config.Position = p.Path
	if err := m.forkGuard(p.IsTree()); err != nil {
		return fmt.Errorf("%w: %w", errGuard, err)
	}
	made, err := p.Group(backend.Wanted{
		Config: s.Config,
		Names:  s.Page.SetDirectories,
		Guard:  freeze.Root{PID: int(s.Page.ByGuard.GuardPID), PIDFD: s.Guard.PIDFD},
	})
	s.Group = made
	if err != nil {
		m.dismissGuard()
	}
	return err
}

// openDirectories opens those that guards need: their cgroup, and the parent of all groups.
func (m *making) openDirectories(above *cgroup.Group) error {
	fds := &m.server.Page.FD
	fds.Leaf = -1
	fds.Parent = -1
	if above == nil {
		return nil
	}
	leaf, err := group.Leaf(above)
	if err != nil {
		return err
	}
	parent, err := unix.FcntlInt(uintptr(above.FD()), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		_ = leaf.Close() // a directory
		return fmt.Errorf("open %s once more: %w", above.Path(), err)
	}
	fds.Leaf = int32(leaf.FD())
	fds.Parent = int32(parent)
	return nil
}

func (m *making) closeDirectories() {
	_ = unix.Close(int(m.server.Page.FD.Leaf))   // a directory, or -1
	_ = unix.Close(int(m.server.Page.FD.Parent)) // a directory, or -1
}

func (m *making) forkGuard(readable bool) error {
	s := m.server
	id := s.Config.Group.ID
	made, err := guard.Fork(s.Page, &guard.Options{
		Name:     names.GuardPrefix + id,
		Argv:     names.HelperArgs(id),
		Env:      s.Env,
		Hide:     guard.CommandLine(),
		Readable: readable,
		Near:     !group.InitReaps(),
	})
	s.Guard = made
	return err
}

// dismissGuard ends a guard without a server, which removes what was made of a group.
func (m *making) dismissGuard() {
	s := m.server
	if s.Guard == nil {
		return
	}
	dismissGuard(s.Guard)
	s.Guard = nil
}

// dismissGuard ends the guard of a server that is taken over, before or after that has begun. A server of the
// watcher before has no such guard.
func dismissGuard(g *page.Guard) {
	if g == nil || g.Sock < 0 {
		return
	}
	_ = unix.Shutdown(g.Sock, unix.SHUT_RDWR) // the guard exits, also while a process being forked has a copy
	_ = unix.Close(g.Sock)                    // a socket
	linux.AwaitWithin(g.PIDFD, unix.POLLIN, policy.ReactWithin)
	reapGuard(g.Page)
	_ = unix.Close(g.PIDFD) // a pidfd
}
