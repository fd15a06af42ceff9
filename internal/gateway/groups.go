// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/kernel/linux"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/server/client"
	"github.com/mcpscope/mcpscope/internal/server/launcher"
	"github.com/mcpscope/mcpscope/internal/server/names"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/text"
)

// groups puts programs into groups of their own, and has the servers among them followed.
type groups struct {
	config      *config
	configure   func(settings []string, name, client string) *Server
	env         []string // of the gateway
	starters    *starters
	servers     *servers
	candidates  *candidates
	memberships *memberships
	reporter    *reporter
	following   *sync.WaitGroup
}

// contain makes a program a server in a group of its own. call is its execve that waits for an answer; nil
// for a program that runs.
func (g *groups) contain(p program, call *heldCall, why string) {
	if len(p.argv) == 0 { // of 32 bits
		p.argv = arguments(p.pid)
	}
	s, entry := g.serverOf(&p, call)
	why = g.config.whyNamed(entry, p.argv, why)
	s.Output.Notes = append(s.Output.Notes, "a server: "+why)
	t, err := g.newGroup(s, &p)
	if err != nil {
		g.reportOutside(p.pid, p.argv, err)
		return
	}
	g.reporter.reportUnlimited(t)
	clientStderr := -1
	if s.Output.Stderr == protocol.StderrJournal {
		identifier := names.DirectoryName(s.Name, t.ID())
		clientStderr, err = giveJournal(&p, call, identifier)
		if err != nil {
			t.SetStderr(protocol.StderrInherit, "stderr is the client's: "+text.JoinLines(err))
		} else {
			t.SetStderr(protocol.StderrJournal, "")
		}
	}
	g.follow(t, &p, why, clientStderr)
}

// prove makes a program a server that has the group t already.
func (g *groups) prove(t *launcher.TakenServer, p *program, why string) {
	s := g.newServer(t.Name(), p.client)
	if err := t.Prove(s.Limits, "a server: "+why); err != nil {
		g.reportOutside(p.pid, p.argv, err)
		g.servers.release(t)
		return
	}
	g.reporter.reportUnlimited(t)
	if s.Output.Stderr == protocol.StderrJournal {
		const note = "stderr is the client's: when it started, only its name said that it is a server"
		t.SetStderr(protocol.StderrInherit, note)
	}
	g.candidates.removeGroup(t.ID())
	g.follow(t, p, why, -1)
}

// follow watches a server until it has ended. The server need not wait for that. clientStderr is a descriptor
// to close then, or -1.
func (g *groups) follow(t *launcher.TakenServer, p *program, why string, clientStderr int) {
	pid := p.pid
	argv := p.argv
	g.following.Go(func() {
		defer closeAll(clientStderr)
		if err := t.Guide(); err != nil {
			g.reportOutside(pid, argv, err)
			g.servers.release(t)
			return
		}
		outcome := fmt.Sprintf("taken as %s (%s)", t.ID(), t.Backend())
		g.reporter.explanations.write(pid, outcome, argv, why)
		g.servers.followUntilEnd(t)
	})
}

func (g *groups) reportOutside(pid int, argv []string, why error) {
	g.reporter.reportOutside(pid, argv, g.starters.clientOf(pid).name(), why)
}

// newGroup puts a program into a group of its own, with all that it has started.
func (g *groups) newGroup(s *Server, p *program) (*launcher.TakenServer, error) {
	if err := g.servers.checkFiles(); err != nil {
		return nil, err
	}
	t, err := g.prepare(s, p)
	if err != nil {
		return nil, err
	}
	err = g.servers.keep(t)
	if err == nil {
		err = t.Take(p.pid)
	}
	if err != nil {
		g.servers.release(t)
		return nil, err
	}
	if t.Backend() == names.Tree {
		g.servers.page.Gateway.HasTrees = true
		showTrees()
	}
	g.moveDescendants(t, p.pid, map[int]bool{p.pid: true})
	return t, nil
}

// prepare makes a group where the client is. A client that was reaped is in no cgroup, and its pid may be
// another process's. So if the client has ended by then, the group is made where the program is.
func (g *groups) prepare(s *Server, p *program) (*launcher.TakenServer, error) {
	if p.client.exits() {
		return g.prepareBeside(p.pid, s, p)
	}
	t, err := g.prepareBeside(p.client.PID, s, p)
	if !p.client.exits() {
		return t, err
	}
	if err == nil { // it may be a tree on a host with cgroups
		t.Release()
	}
	return g.prepareBeside(p.pid, s, p)
}

func (g *groups) prepareBeside(pid int, s *Server, p *program) (*launcher.TakenServer, error) {
	pidfd, err := unix.FcntlInt(uintptr(p.pidfd), unix.F_DUPFD_CLOEXEC, 3) // until the server has ended
	if err != nil {
		return nil, fmt.Errorf("copy a pidfd: %w", err)
	}
	s.Gateway.Beside = pid
	return s.Prepare(client.Child{
		PID: p.pid, PIDFD: pidfd, ClientPIDFD: p.client.pidfd, Inherited: g.starters.haveStdin(p.stdin),
	})
}

// moveDescendants moves the processes that a member has started. Their later children are born in the group.
func (g *groups) moveDescendants(t *launcher.TakenServer, parent int, seen map[int]bool) {
	children, _ := proc.Children(parent) // none, if it has ended
	for _, pid := range children {
		pidfd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue // it has ended
		}
		if !seen[pid] {
			seen[pid] = true
			g.moveChild(t, parent, pid, pidfd, seen)
		}
		_ = unix.Close(pidfd) // no data can be lost
	}
}

// moveChild moves a child of a member with its descendants, unless it is part of another server.
func (g *groups) moveChild(t *launcher.TakenServer, parent, pid, pidfd int, seen map[int]bool) {
	st, err := proc.ReadStat(pid) // its pid may be another's, as long as there is no pidfd
	if err != nil || st.PPID != parent {
		return
	}
	placed := g.candidates.withGroup(pid)
	if placed != nil && !t.IsProven() {
		return // both have a group for their names alone, and each is watched by itself
	}
	if placed != nil && placed.decide() {
		defer g.absorb(t, placed.group)
	}
	if g.memberships.of(pid) == memberOfServer || linux.Ended(pidfd) {
		return
	}
	g.moveMember(t, pid, pidfd)
	g.moveDescendants(t, pid, seen) // also if the child itself can't be moved
}

// moveMember moves one process. Its pidfd was open before anything was read about it.
func (g *groups) moveMember(t *launcher.TakenServer, pid, pidfd int) {
	err := t.TakeAlso(pid, pidfd)
	if err != nil && !linux.Ended(pidfd) {
		why := fmt.Errorf("it can't be moved to the group of %s: %w", t.ID(), err)
		g.reportOutside(pid, arguments(pid), why)
	}
}

// absorbLooks is how often absorb looks for members that were born while others were moved.
const absorbLooks = 20

// absorb moves the rest of the group of a program that a server has started: a member whose parent has ended
// is no descendant of the server. Then it gives the group up, for which an execve need not wait.
func (g *groups) absorb(t, placed *launcher.TakenServer) {
	moved := map[int]bool{}
	for range absorbLooks {
		pids := slices.DeleteFunc(launcher.ListMembers(placed), func(pid int) bool { return moved[pid] })
		if len(pids) == 0 {
			break
		}
		for _, pid := range pids {
			moved[pid] = true
			g.absorbMember(t, placed, pid)
		}
	}
	g.following.Go(func() { g.servers.release(placed) })
}

func (g *groups) absorbMember(t, placed *launcher.TakenServer, pid int) {
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return // it has ended
	}
	defer unix.Close(pidfd)
	isMember := slices.Contains(launcher.ListMembers(placed), pid) // before, its pid may be another's
	if isMember && !linux.Ended(pidfd) {
		g.moveMember(t, pid, pidfd)
	}
}

// giveJournal replaces the stderr of a program that waits in its execve by a stream to the journal. It
// returns a copy of the client's stderr, or -1: for a client that reads it, its end would be the server's.
func giveJournal(p *program, call *heldCall, identifier string) (clientStderr int, err error) {
	if call == nil {
		return -1, errors.New("the server ran already when it was recognized")
	}
	stream, err := systemd.JournalStream(identifier, systemd.Info)
	if err != nil {
		return -1, err
	}
	defer unix.Close(stream)
	clientStderr = -1
	stderr := fileAt(p.pid, 2)
	if stderr != fileAt(p.pid, 0) && stderr != fileAt(p.pid, 1) { // those end with the server
		clientStderr, _ = unix.PidfdGetfd(p.pidfd, 2, 0) // -1 without the right to ptrace
	}
	return clientStderr, call.replaceDescriptor(2, stream)
}

// serverOf is the server that a program is, and its entry in a configuration; or nil. call is as in contain.
func (g *groups) serverOf(p *program, call *heldCall) (*Server, *Configured) {
	dir, _ := os.Readlink(fmt.Sprintf("/proc/%d/cwd", p.pid)) // "", if it can't be read
	env := call.environment(p.pid)
	made := recipe{argv: p.argv, dir: dir, variables: difference(env, g.environmentOf(p.client))}
	client := p.client.name()
	s := g.newServer(g.config.serverName(made, client), p.client)
	s.Gateway.Recipe = made.number()
	s.Origin = protocol.OriginOf(dir, env)
	return s, g.config.entryOf(made, client)
}

// environmentOf is the environment that a starter began with.
func (g *groups) environmentOf(s *starter) []string {
	if s == g.starters.gateway {
		return g.env
	}
	return proc.EnvironmentOf(s.PID)
}

// newServer is a server of that client; its name is "" for the watcher's own place.
func (g *groups) newServer(name string, client *starter) *Server {
	s := g.configure(g.config.Settings, name, client.name())
	s.Name = name
	s.Gateway.Client = client.Identity
	s.ClientName = client.name()
	s.Places.Require = g.config.Require
	s.Output.Messages.Weaker = g.reporter.reportWeaker
	s.Output.Report = -1
	s.Env = g.env
	s.Executable = ownProgram
	s.Gateway.Guard = int(g.servers.page.ByGuard.GuardPID)
	s.Gateway.Hub = g.servers.hub
	s.Gateway.LimitsMayFail = true // without them it is contained at least
	return s
}
