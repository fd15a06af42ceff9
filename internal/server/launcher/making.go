// SPDX-License-Identifier: Apache-2.0

package launcher

import (
	"cmp"
	"errors"
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
	"github.com/mcpscope/mcpscope/internal/server/brain"
	"github.com/mcpscope/mcpscope/internal/server/client"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/guard"
	"github.com/mcpscope/mcpscope/internal/server/names"
	"github.com/mcpscope/mcpscope/internal/server/page"
	"github.com/mcpscope/mcpscope/internal/server/policy"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/text"
)

// making is the making of a group, for a server that this process starts or takes over.
type making struct {
	server    *brain.Server
	wanted    *Server
	client    *client.Side
	prepared  *guard.Preparation // nil for a server that is taken over
	unlimited []error            // limits that could not be applied, with Server.LimitsMayFail
}

// newMaking fills in the configuration that a brain needs, but for the group.
func newMaking(s *Server) *making {
	c := protocol.NewConfig()
	c.Group.ID = names.NewID()
	c.Name = s.Name
	c.Argv = s.Main.Argv
	c.Policy = s.Policy
	c.Started = time.Now().UnixNano()
	c.Recipe = s.Recipe
	c.Origin = s.Origin
	c.Verbose = s.Messages.Verbose
	c.Replace = s.Replace
	c.Report = s.Report
	c.Stderr = protocol.StderrInherit
	c.Quiet = s.Messages.Quiet
	c.Client = s.identifyClient()
	c.Path = s.Main.Path
	c.Engine = protocol.EngineOf(s.Main.Argv)
	c.Launcher, _ = group.Identify(os.Getpid()) // no backend works without /proc
	if s.Guard > 0 {
		c.Guard, _ = group.Identify(s.Guard) // as far as it can be seen
	}
	return &making{server: &brain.Server{Config: c, Env: s.Env}, wanted: s}
}

// identifyClient describes the client. One that is not our parent may have ended, and its pid be another's.
func (s *Server) identifyClient() protocol.ClientFacts {
	if s.Client.PID != 0 {
		return protocol.ClientFacts{PID: s.Client.PID, Start: s.Client.Start, Name: s.ClientName}
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
	p.Handover.Terminal = linux.OnTerminal()
	p.FD.Program = int32(program)
	p.FD.Launcher = int32(self)
	p.FD.Keep = int32(c.Report)
	p.Order.EOFGrace = int64(c.Policy.EOFGrace)
	p.Order.TermGrace = int64(c.Policy.TermGrace)
	p.Order.Replaces = c.Replace
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
	wait := &admission.Wait{
		MinFree:       s.MinFree,
		OnClientDeath: s.Policy.OnClientDeath,
		Client:        m.client,
		Waits:         s.Messages.Waits,
	}
	var broken []error // places that there are
	err := s.eachPlace(func(p backend.Place, missed []error) error {
		c.Client.Unit, _, _ = systemd.UnitOf(p.Path, os.Getuid()) // none, outside of any
		if err := m.awaitMemory(wait, p); err != nil {
			return err
		}
		if m.prepared != nil {
			preferInSession(p)
		}
		if err := m.makeGroup(p); err != nil {
			if isBroken(p.Backend, err) {
				broken = append(broken, &placeError{p.Backend, err})
			}
			return err
		}
		notes := slices.Clone(s.Notes)
		for _, err := range missed { // for people who wonder about the backend
			notes = append(notes, "not available: "+text.JoinLines(err))
		}
		c.Notes = append(notes, c.Notes...)
		return nil
	})
	if err != nil {
		return err
	}
	c.Group = m.server.Group.Placed
	// That a host has no better backend is a note. One that it has but that does not work any more must be
	// reported, for tree is weaker.
	if c.Group.Backend == names.Tree && len(broken) > 0 && s.Messages.Weaker != nil {
		s.Messages.Weaker(errors.Join(broken...))
	}
	if c.StartedByClient && c.Group.Backend == names.Tree {
		m.server.Page.Order.Tag = uint64(group.TagOf(c.Group.ID))
	}
	if s.Unproven {
		return m.server.Group.Disarm() // a sweep leaves such a group alone
	}
	m.unlimited, err = limit(m.server, s.Limits, s.LimitsMayFail) // before there is a main process
	return err
}

// awaitMemory waits for free memory before there is a group or a process, so that a signal in the wait leaves
// nothing. A server that is taken over does not wait: its client has started it, and its execve is held.
func (m *making) awaitMemory(wait *admission.Wait, p backend.Place) error {
	if wait.MinFree == 0 {
		return nil
	}
	above := p.AboveServer()
	defer above.Close() // a directory, or nil
	isTaken := m.prepared == nil
	if isTaken {
		free, err := admission.ReadFree(p.Root, above)
		if err == nil && free.Bytes < wait.MinFree {
			m.server.Note(fmt.Sprintf("started with less free memory than min-free (%d of %d bytes): "+
				"below a gateway it does not wait", free.Bytes, wait.MinFree))
		}
		return nil
	}
	err := wait.UntilFree(p.Root, above)
	if waited := wait.Waited(); err == nil && waited > 0 {
		m.server.Note("waited for free memory: " + waited.Round(policy.AdmitEvery).String())
	}
	return err
}

// isBroken reports whether the error of a place is that of a backend which this host has, and which does not
// work. A manager can be busy, or not be meant for us. A read-only mount, as in a container, has no groups
// for us.
func isBroken(b names.Backend, err error) bool {
	makesGroups := b == names.Delegated || b == names.Cgroup
	return makesGroups && !errors.Is(err, unix.EROFS)
}

// limit applies limits to the group of a server. If they may fail, one that can't be applied is a note, and
// among the unlimited.
func limit(s *brain.Server, limits cgroup.Limits, mayFail bool) (unlimited []error, err error) {
	if err := s.Group.KillWholeInSession(); err != nil {
		s.Note("out of memory the kernel kills one process of it: " + text.JoinLines(err))
	}
	for _, l := range limits.Files {
		_, err := s.Group.Limit(l)
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

// makeGroup makes a group in a place, with its guard first: from then on the launcher's death leaves nothing.
func (m *making) makeGroup(p backend.Place) error {
	if err := m.openDirectories(p.Above); err != nil {
		return err
	}
	if m.prepared == nil { // otherwise they are for the next guards, too
		defer m.closeDirectories()
	}
	s := m.server
	s.Config.Position = p.Path
	if err := m.forkGuard(p.Backend == names.Tree); err != nil {
		return fmt.Errorf("%w: %w", errGuard, err)
	}
	wanted := backend.Wanted{
		Config:   s.Config,
		Names:    s.Page.SetDirectories,
		Launcher: freeze.Root{PID: os.Getpid(), PIDFD: int(s.Page.FD.Launcher)},
		Guard:    freeze.Root{PID: int(s.Page.ByGuard.GuardPID), PIDFD: s.Guard.PIDFD},
	}
	if m.prepared != nil {
		wanted.Prefork = m.prefork
	}
	made, err := p.Group(wanted)
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

// prefork starts the main process, which waits for its group.
func (m *making) prefork() (pid int, err error) {
	pid, errno := m.prepared.Prefork(-1)
	if errno != 0 {
		return 0, fmt.Errorf("fork the server: %w", errno)
	}
	return pid, nil
}

func (m *making) forkGuard(readable bool) error {
	s := m.server
	id := s.Config.Group.ID
	options := &guard.Options{
		Name:     names.GuardPrefix + id,
		Argv:     names.BrainArgs(id),
		Env:      s.Env,
		Hide:     guard.CommandLine(),
		Readable: readable,
		Near:     !group.InitReaps(),
	}
	var err error
	if m.prepared != nil {
		s.Guard, err = m.prepared.ForkGuard(options)
	} else {
		s.Guard, err = guard.Fork(s.Page, options)
	}
	return err
}

// dismissGuard ends a guard without a server, which removes what was made of a group.
func (m *making) dismissGuard() {
	s := m.server
	if s.Guard == nil {
		return
	}
	if m.prepared != nil {
		m.prepared.Abandon()
		m.closeDirectories()
	} else {
		dismissGuard(s.Guard)
	}
	s.Guard = nil
}

// dismissGuard ends the guard of a server that is taken over, before or after that has begun. A server of the
// watcher before has no such guard.
func dismissGuard(g *page.Guard) {
	if g.Sock < 0 {
		return
	}
	_ = unix.Close(g.Sock) // a socket, whose end has the guard exit
	linux.AwaitWithin(g.PIDFD, unix.POLLIN, policy.ReactWithin)
	_ = unix.Close(g.PIDFD) // a pidfd
}

// abandon undoes a start that failed. It closes the client's side first: the start may have failed for lack
// of descriptors.
func (m *making) abandon() {
	if m.client != nil {
		m.client.Close()
	}
	if m.server.Group != nil {
		_ = m.server.Group.Remove() // the guard tries as well, and a sweep
	}
	m.dismissGuard()
}
