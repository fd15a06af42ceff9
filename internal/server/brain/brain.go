// SPDX-License-Identifier: Apache-2.0

// Package brain decides about a server, in a process that the guard starts when something has happened, or
// in the watcher of a gateway. It reports events to the lifecycle and performs the actions. It exits when
// there is nothing more to decide, or after all processes of the server. The next one goes on with the state
// on the page.
package brain

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/kernel/loop"
	"github.com/mcpscope/mcpscope/internal/server/causes"
	"github.com/mcpscope/mcpscope/internal/server/lifecycle"
	"github.com/mcpscope/mcpscope/internal/server/page"
)

// Brain waits for the events of one server: those of its loop, and those on the page.
type Brain struct {
	Server *Server
	Loop   *loop.Loop
	Held   int // stdin, where that can be watched only by holding it; or -1
	Events int // of the group, or -1

	actor    *actor
	news     news
	settling settling
}

// New makes the brain of a server that waits by that loop.
func New(s *Server, l *loop.Loop) *Brain {
	a := &actor{server: s, loop: l, killer: newKiller(s)}
	return &Brain{
		Server: s, Loop: l, Held: -1, Events: -1,
		actor: a, news: news{actor: a}, settling: settling{server: s},
	}
}

// Begin starts the lifecycle, when there are guard and group.
func (b *Brain) Begin() error {
	s := b.Server
	b.actor.begin()
	b.news.begin()
	if s.Group.InSession { // kills from now on count
		b.actor.killer.record.measure()
	}
	b.Events = s.Group.Events()
	if !s.Config.StartedByClient { // the guard of such a server is not for long
		if err := b.Loop.Add(s.Guard.Sock, loop.TokenGuard); err != nil {
			return err
		}
	}
	return b.Loop.Add(b.Events, loop.TokenEvents)
}

// Live returns when the group is empty, when there is nothing to decide, or when another process decides.
func (b *Brain) Live() {
	b.lookForRequest() // one that was made before the loop had the events of the group
	if !b.Server.Config.StartedByClient {
		b.news.read()
	}
	for b.actor.life.State != lifecycle.Emptied && !b.actor.turn.isOver() {
		if b.canRest() {
			b.rest()
			return
		}
		b.actor.publish() // the loop sees whether the turn is over
		b.handle(b.Loop.Next(b.actor.deadline()))
		b.actor.perform(b.actor.life.HandleTime(time.Now()))
		b.actor.lookIfDue()
		b.actor.checkEmpty()
	}
	if b.actor.turn.isOver() {
		return
	}
	b.actor.publish()
	b.end()
}

// canRest reports whether the guard can do without a brain until something happens, or the next look is due.
func (b *Brain) canRest() bool {
	isDeciding := b.actor.life.State > lifecycle.Idle || b.Server.Page.Pending()
	if b.Server.Config.StartedByClient || isDeciding || b.settling.isRunning {
		return false
	}
	next := b.actor.deadline()
	return next.IsZero() || time.Until(next) > restLeast
}

// restLeast: to start the next brain takes some milliseconds of CPU.
const restLeast = time.Second

// rest ends the brain. The guard starts another one if something has happened meanwhile.
func (b *Brain) rest() {
	b.actor.publish()
	b.actor.saveLooks()
	b.Server.Page.ByBrain.CallBrainAt = monotonic(b.actor.deadline(), time.Now())
	b.Server.Guard.Send(page.WordRest)
}

func (b *Brain) handle(t loop.Token) {
	switch t {
	case loop.TokenSignals:
		b.Loop.Signals() // a brain ignores them; unread ones would be reported again
	case loop.TokenStdin:
		b.actor.report(lifecycle.StdinClosed)
	case loop.TokenStdout:
		b.actor.report(lifecycle.StdoutClosed)
	case loop.TokenClient:
		b.actor.report(lifecycle.ClientDied)
	case loop.TokenInput:
		b.actor.reportInput()
	case loop.TokenMain:
		b.CloseHeld()
		b.actor.perform(b.actor.handleExit()) // without the status, which only its parent gets
	case loop.TokenEvents:
		b.handleGroupEvent()
	case loop.TokenMemory: // a manager removes the group of a server that was killed
		b.actor.killer.record.measure()
	case loop.TokenAdopted:
		b.Server.Group.Park()
	case loop.TokenSettled:
		b.settling.finish()
	case loop.TokenGuard:
		b.handleWord()
	}
}

// handleGroupEvent handles a change of cgroup.events: the group may be empty, or a stop be requested.
func (b *Brain) handleGroupEvent() {
	var text [256]byte
	_, _ = unix.Pread(b.Events, text[:], 0) // the kernel reports no further event before the file is read
	b.Loop.Again(b.Events, loop.TokenEvents)
	b.actor.emptyCheckAt = time.Now()
	b.lookForRequest()
}

// handleWord reads news on the page, and reacts to the guard's death.
func (b *Brain) handleWord() {
	isDead := b.Server.Guard.Drain()
	b.news.read()
	if isDead {
		b.loseGuard()
		return
	}
	b.Loop.Again(b.Server.Guard.Sock, loop.TokenGuard)
}

// loseGuard leaves the server to the brain of the next guard, which the launcher forks. Without a launcher
// this brain is the last process.
func (b *Brain) loseGuard() {
	if b.Server.Page.ByGuard.Over || b.Server.launcherLives() {
		b.actor.turn.isLeft = true
		return
	}
	b.actor.report(lifecycle.GuardDied)
}

// lookForRequest is the other side of ControlGroup.AskToStop, and of a request that was recorded because the
// guard could be killed before it reacts.
func (b *Brain) lookForRequest() {
	s := b.Server
	if s.Page.ByOthers.Stop || s.Group.Cause() == causes.StopRequested {
		b.actor.report(lifecycle.StopRequested)
	}
}

// CloseHeld closes Held when the server does not read any more: the client gets its EPIPE.
func (b *Brain) CloseHeld() {
	_ = unix.Close(b.Held) // a copy, or -1
	b.Held = -1
}
