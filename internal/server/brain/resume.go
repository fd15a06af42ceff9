// SPDX-License-Identifier: Apache-2.0

package brain

import (
	"cmp"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/kernel/linux"
	"github.com/mcpscope/mcpscope/internal/kernel/loop"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/server/backend"
	"github.com/mcpscope/mcpscope/internal/server/causes"
	"github.com/mcpscope/mcpscope/internal/server/client"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/lifecycle"
	"github.com/mcpscope/mcpscope/internal/server/names"
	"github.com/mcpscope/mcpscope/internal/server/page"
	"github.com/mcpscope/mcpscope/internal/server/policy"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/text"
)

// Decide is the whole life of a brain that a guard has started. memory and sock are the descriptors of the
// page and of the guard's socket. No process reads the exit status.
func Decide(memory, sock int) int {
	b, err := attach(memory, sock)
	if err == nil {
		err = b.takeOverFromGuard()
	}
	if err != nil {
		return 125 // the guard starts another one, and ends everything by itself if that fails, too
	}
	b.Live()
	if b.actor.helpless {
		return 125
	}
	b.AwaitSettled() // the sweep of the orphans of others may go on
	return 0
}

// attach makes the brain of this process, which a guard has started.
func attach(memory, sock int) (*Brain, error) {
	// For people, instead of the number of the descriptor that was executed. A process that is not dumpable
	// may not write to it.
	_ = os.WriteFile("/proc/self/comm", []byte(os.Args[0]), 0)
	p, err := page.Open(memory)
	if err != nil {
		return nil, err
	}
	env, err := proc.Environ() // which is not ours to read any more when tracers are kept off
	if err != nil {
		return nil, err
	}
	g, err := page.Attach(p, sock)
	if err != nil {
		return nil, err
	}
	l, err := loop.New()
	if err != nil {
		return nil, err
	}
	b, err := LoadRunning(p, g, env, l)
	if err != nil {
		return nil, err
	}
	// Caught, not ignored: that would be inherited by a container engine.
	return b, l.Catch(linux.Ending...)
}

// takeOverFromGuard goes on at the server's state, in a process that the guard has started.
func (b *Brain) takeOverFromGuard() error {
	s := b.Server
	p := s.Page
	b.actor.client = clientOn(p, s.Config.Side)
	if b.actor.life.State >= lifecycle.Terminating {
		mainHas := b.actor.life.Cause == causes.Signalled && p.ByLauncher.Signals[0].ToMain
		b.actor.reportAs(lifecycle.BrainDied, mainHas)
		return nil
	}
	b.actor.resumeLooks()
	if p.Pending() {
		b.news.read()
	}
	if b.actor.life.State >= lifecycle.Terminating || b.actor.turn.isLeft {
		return nil
	}
	if p.ByLauncher.Guards > 0 {
		s.noteGuards()
		s.Group.Note(s.Config.Notes)
	}
	if p.ByGuard.Strayed {
		p.ByGuard.Strayed = false
		if err := backend.AttachGuard(s.Group, int(p.ByGuard.GuardPID)); err != nil {
			s.Note("a stop of the scope does not reach the guard: " + text.JoinLines(err))
		}
	}
	if p.ByBrain.Start.Done {
		return nil
	}
	b.settling.begin()
	return b.settling.reportTo(b.Loop)
}

// clientOn is the client's side in the descriptors that a brain has inherited.
func clientOn(p *page.Page, known protocol.ClientSide) *client.Side {
	return &client.Side{
		ClientSide: known,
		Stdin:      client.Watch(p.FD.Stdin),
		Stdout:     client.Watch(p.FD.Stdout),
		PIDFD:      int(p.FD.Client),
		Server: client.ServerSide{
			Input:    client.Watch(p.FD.Input),
			Room:     [2]client.Watch{client.Watch(p.FD.Room[0]), client.Watch(p.FD.Room[1])},
			Terminal: client.Terminal(p.FD.Terminal),
			Main:     -1,
		},
	}
}

// TakeOverInWatcher goes on with a server of the watcher before: it watches the client's side, or goes on
// with a stop.
func (b *Brain) TakeOverInWatcher(in *client.Side) error {
	b.actor.client = in
	if b.actor.life.State > lifecycle.Idle {
		b.actor.report(lifecycle.BrainDied)
		return nil
	}
	b.actor.resumeLooks()
	if in.Server.Main < 0 { // it has ended without a watcher
		b.Loop.Report(loop.TokenMain)
	}
	return in.Add(b.Loop)
}

// SettleInWatcher settles the start of a server that its client has started. It calls the function when a
// manager has answered.
func (b *Brain) SettleInWatcher(in *client.Side, adopted func()) {
	b.actor.client = in
	b.actor.beginLooks(false)
	b.settling.begin()
	b.settling.tasks.Go(func() {
		b.Server.Group.AwaitAdoption()
		adopted()
	})
}

// AwaitSettled waits for all tasks of the start that have begun.
func (b *Brain) AwaitSettled() { b.settling.tasks.Wait() }

// LoadRunning makes the brain of a server that runs, in the state and with the deadline of the page. It
// sweeps nothing: a watcher loads many servers, and looks after none of the others before it has them all.
func LoadRunning(p *page.Page, g *page.Guard, env []string, l *loop.Loop) (*Brain, error) {
	b, err := Load(p, g, env, l)
	if err != nil {
		return nil, err
	}
	if err := b.Begin(); err != nil {
		_ = unix.Close(b.Events) // a file that is only read, or -1
		return nil, err
	}
	left := lifecycle.Left{
		State:      lifecycle.State(p.ByBrain.Phase),
		PhaseEnds:  fromMonotonic(p.ByBrain.PhaseEnds),
		SignalSent: p.ByBrain.MembersAsked,
		Reclaimed:  p.ByBrain.Looks.Reclaimed,
	}
	left.Cause, left.Signal = causeOn(p)
	left.UnreadUntil = unreadUntil(p)
	b.actor.life.Resume(left)
	return b, nil
}

// unreadUntil bounds the wait for unread input and output, which the first hang-up has begun. It is the zero
// time if there was none.
func unreadUntil(p *page.Page) time.Time {
	happened := &p.ByGuard.Happened
	since := happened[page.StdinClosed]
	output := happened[page.StdoutClosed]
	if since == 0 || output != 0 && output < since {
		since = output
	}
	if since == 0 {
		return time.Time{}
	}
	return fromMonotonic(since).Add(policy.UnreadWait)
}

// Load makes the brain of a server from its page, for a server whose lifecycle has not begun yet.
func Load(p *page.Page, g *page.Guard, env []string, l *loop.Loop) (*Brain, error) {
	s, err := LoadServer(p, g, int(p.ByGuard.Payload), env)
	if err != nil {
		return nil, err
	}
	return New(s, l), nil
}

// LoadServer makes a server from its page. payload is the group as this process has it.
func LoadServer(p *page.Page, g *page.Guard, payload int, env []string) (*Server, error) {
	c, err := configOn(p)
	if err != nil {
		return nil, err
	}
	s := &Server{Config: c, Page: p, Guard: g, Env: env}
	if !p.Plan.IsByMain {
		s.completeConfig()
	}
	if c.Group.Backend == names.Tree && c.StartedByClient {
		s.Group = group.NewTaggedTree(c.Group.ID)
		return s, nil
	}
	if c.Group.Backend == names.Tree {
		s.Group = group.NewTree(c.Group.ID, s.descendants(group.TagOf(c.Group.ID)))
		return s, nil
	}
	s.Group, err = group.Reopen(payload, c.Group)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// configOn is the configuration on the page. Raw code that starts a server by its flags writes none.
func configOn(p *page.Page) (*protocol.Config, error) {
	if !p.Plan.IsByMain {
		return protocol.ConfigOf(&p.Started, p.Directory()), nil
	}
	return protocol.ConfigOn(p)
}

// completeConfig adds facts to those that a raw launcher writes. This process has its working directory and
// the environment of the server.
func (s *Server) completeConfig() {
	c := s.Config
	dir, _ := os.Getwd() // "", if it was removed
	c.Origin = protocol.OriginOf(dir, s.Env)
	if st, err := proc.ReadStat(c.Client.PID); err == nil && st.StartTime == c.Client.Start {
		c.Client.Name = cmp.Or(protocol.ClientName(c.Client.PID), c.Client.Name)
	}
	c.Client.Unit, _, _ = systemd.UnitOf(c.Position, os.Getuid()) // none, outside of any
}
