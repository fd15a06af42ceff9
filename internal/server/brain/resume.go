// SPDX-License-Identifier: Apache-2.0

package brain

import (
	"cmp"
	"os"
	"time"

	"github.com/mcpscope/mcpscope/internal/kernel/linux"
	"github.com/mcpscope/mcpscope/internal/kernel/loop"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/server/backend"
	"github.com/mcpscope/mcpscope/internal/server/client"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/lifecycle"
	"github.com/mcpscope/mcpscope/internal/server/page"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
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
	if b.helpless {
		return 125
	}
	b.AwaitSettled() // of the orphans of others
	return 0
}

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
	p := b.Page
	b.Client = &client.Side{
		ClientSide: b.Config.Side, Stdin: client.Watch(p.FD.Stdin), Input: client.Watch(p.FD.Input),
		Stdout: client.Watch(p.FD.Stdout), PIDFD: int(p.FD.Client), Main: -1,
		Room: [2]client.Watch{client.Watch(p.FD.Room[0]), client.Watch(p.FD.Room[1])},
	}
	if b.life.State >= lifecycle.Terminating {
		mainHas := b.life.Cause == protocol.Signalled && p.ByLauncher.Signals[0].ToMain
		b.performAs(b.life.Handle(lifecycle.BrainDied, time.Now()), mainHas)
		return nil
	}
	b.resumeLooks()
	if p.Pending() {
		b.readPage()
	}
	if b.life.State >= lifecycle.Terminating || b.quits {
		return nil
	}
	if p.ByLauncher.Guards > 0 {
		b.noteGuards()
		b.Group.Note(b.Config.Notes)
	}
	if p.ByGuard.Strayed {
		p.ByGuard.Strayed = false
		if err := backend.AttachGuard(b.Group, int(p.ByGuard.GuardPID)); err != nil {
			b.Note("a stop of the scope does not reach the guard: " + protocol.OneLine(err))
		}
	}
	if p.ByBrain.Settled {
		return nil
	}
	b.settle()
	return b.awaitSettled()
}

// LoadRunning makes the brain of a server that runs, in the state and with the deadline of the page. It sweeps
// nothing: a watcher loads many servers, and looks after none of the others before it has them all.
func LoadRunning(p *page.Page, g *page.Guard, env []string, l *loop.Loop) (*Brain, error) {
	b, err := Load(p, g, env, l)
	if err != nil {
		return nil, err
	}
	if err := b.Begin(); err != nil {
		return nil, err
	}
	left := lifecycle.Left{
		State: lifecycle.State(p.ByBrain.Phase),
		Due:   fromMonotonic(p.ByBrain.PhaseEnds),
		Asked: p.ByBrain.MembersAsked,
	}
	left.Cause, left.Signal = causeOn(p)
	left.Unread = fromMonotonic(p.ByGuard.Happened[page.StdinClosed])
	if !left.Unread.IsZero() {
		left.Unread = left.Unread.Add(protocol.UnreadWait)
	}
	b.life.Resume(left)
	return b, nil
}

// Load makes the brain of a server from its page, for a server whose lifecycle has not begun yet.
func Load(p *page.Page, g *page.Guard, env []string, l *loop.Loop) (*Brain, error) {
	return loadWithGroup(p, g, int(p.ByGuard.Payload), env, l)
}

// LoadForReport loads a server that has ended, for the report of its launcher. payload is the group as the
// launcher has it.
func LoadForReport(p *page.Page, g *page.Guard, payload int, env []string) (*Server, error) {
	b, err := loadWithGroup(p, g, payload, env, nil)
	if err != nil {
		return nil, err
	}
	return &b.Server, nil
}

func loadWithGroup(p *page.Page, g *page.Guard, payload int, env []string, l *loop.Loop) (*Brain, error) {
	c, err := configOn(p)
	if err != nil {
		return nil, err
	}
	b := New(c, l)
	b.Page = p
	b.Guard = g
	b.Env = env
	if p.Started.Mark == page.StartedMark {
		b.complete()
	}
	if c.Group.Backend == protocol.Tree {
		b.Group = group.NewTree(c.Group.ID, b.descendants(group.TagOf(c.Group.ID)))
	} else if b.Group, err = group.Reopen(payload, c.Group); err != nil {
		return nil, err
	}
	return b, nil
}

// configOn is the configuration on the page. A raw launcher writes none.
func configOn(p *page.Page) (*protocol.Config, error) {
	if p.Started.Mark == page.StartedMark {
		return protocol.ConfigOf(&p.Started, p.Directory()), nil
	}
	c := &protocol.Config{}
	text, err := p.Config()
	if err == nil {
		err = protocol.Decode(text, c)
	}
	return c, err
}

// complete adds facts to those that a raw launcher writes. This process has its working directory and the
// environment of the server.
func (b *Brain) complete() {
	c := b.Config
	dir, _ := os.Getwd() // "", if it was removed
	c.Origin = protocol.OriginOf(dir, b.Env)
	if st, err := proc.ReadStat(c.Client.PID); err == nil && st.StartTime == c.Client.Start {
		c.Client.Name = cmp.Or(protocol.ClientName(c.Client.PID), c.Client.Name)
	}
	c.Client.Unit, _, _ = systemd.UnitOf(c.Position, os.Getuid()) // none, outside of any
}

// TakeOverInWatcher goes on with a server of the watcher before: it watches the client's side, or goes on with
// a stop.
func (b *Brain) TakeOverInWatcher(in *client.Side) error {
	b.Client = in
	if b.life.State > lifecycle.Idle {
		b.report(lifecycle.BrainDied)
		return nil
	}
	b.resumeLooks()
	if in.Main < 0 { // it has ended without a watcher
		b.Loop.Report(loop.TokenMain)
	}
	return in.Add(b.Loop)
}

// SettleInWatcher settles the start of a server that its client has started. It calls the function when a
// manager has answered.
func (b *Brain) SettleInWatcher(adopted func()) {
	b.beginRest(false)
	b.settle()
	b.beside.Go(func() {
		b.Group.AwaitAdoption()
		adopted()
	})
}

// AwaitSettled waits for all that settle has begun.
func (b *Brain) AwaitSettled() { b.beside.Wait() }
