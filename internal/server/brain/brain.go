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
	"github.com/mcpscope/mcpscope/internal/server/client"
	"github.com/mcpscope/mcpscope/internal/server/idle"
	"github.com/mcpscope/mcpscope/internal/server/lifecycle"
	"github.com/mcpscope/mcpscope/internal/server/page"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// Brain is that of one server.
type Brain struct {
	Server
	Loop   *loop.Loop
	life   *lifecycle.Lifecycle
	Client *client.Side
	rest   *idle.Rest // nil for a server that is never frozen
	settling

	generation uint32 // the page's, when this brain began
	forwarded  uint32
	Held       int // stdin, where that can be watched only by holding it; or -1
	Events     int // of the group, or -1
	// emptyCheckAt is the next check whether the group is empty.
	emptyCheckAt time.Time
	pause        time.Duration
	quits        bool // another process ends the server
	inputCame    bool // the present event is input for a server that is frozen
	helpless     bool // it could not kill the members, for lack of descriptors for example

	endingNoted bool // in the group's attribute
}

// The guard knows these states.
var (
	_ [page.Running]struct{}     = [lifecycle.Running]struct{}{}
	_ [page.Idle]struct{}        = [lifecycle.Idle]struct{}{}
	_ [page.Terminating]struct{} = [lifecycle.Terminating]struct{}{}
)

// New is a brain that waits by that loop.
func New(c *protocol.Config, l *loop.Loop) *Brain {
	return &Brain{Server: Server{Config: c}, Loop: l, Held: -1, Events: -1, settling: settling{done: -1}}
}

// Begin starts the lifecycle, when there are guard and group.
func (b *Brain) Begin() error {
	c := b.Config
	b.life = lifecycle.New(c.Policy, facts{b}, time.Unix(0, c.Started), time.Now())
	b.generation = b.Page.ByGuard.Generation
	b.forwarded = b.Page.ByLauncher.Forwarded
	b.Events = b.Group.Events()
	if !c.Taken { // the guard of such a server is not for long
		if err := b.Loop.Add(b.Guard.Sock, loop.TokenGuard); err != nil {
			return err
		}
	}
	return b.Loop.Add(b.Events, loop.TokenEvents)
}

// Live returns when the group is empty, when there is nothing to decide, or when another process decides.
func (b *Brain) Live() {
	b.lookForRequest() // before there was Events
	if !b.Config.Taken {
		b.readPage()
	}
	for b.life.State != lifecycle.Emptied && !b.replaced() {
		if b.canRest() {
			b.goRest()
			return
		}
		b.publish()
		b.handle(b.Loop.Next(b.deadline()))
		b.perform(b.life.HandleTime(time.Now()))
		b.checkIdle()
		b.checkEmpty()
	}
	if !b.replaced() {
		b.publish()
		b.end()
	}
}

// replaced reports whether another brain decides about the server, or its launcher has ended it.
func (b *Brain) replaced() bool { return b.quits || b.Page.ByGuard.Generation != b.generation }

// canRest reports whether the guard can do without a brain until something happens, or the next look is due.
func (b *Brain) canRest() bool {
	if b.Config.Taken || b.life.State > lifecycle.Idle || !b.isSettled() || b.Page.Pending() {
		return false
	}
	next := b.deadline()
	return next.IsZero() || time.Until(next) > restLeast
}

// restLeast: to start the next brain takes some milliseconds of CPU.
const restLeast = time.Second

// goRest ends the brain. The guard starts another one if something has happened meanwhile.
func (b *Brain) goRest() {
	b.publish()
	b.keepLooks()
	b.Page.ByBrain.CallBrainAt = monotonic(b.deadline(), time.Now())
	b.Guard.Send(page.WordRest)
}

func (b *Brain) deadline() time.Time {
	due := b.life.Due()
	if b.life.State >= lifecycle.Terminating && (due.IsZero() || b.emptyCheckAt.Before(due)) {
		return b.emptyCheckAt
	}
	if b.rest != nil && (due.IsZero() || b.rest.Due.Before(due)) {
		return b.rest.Due
	}
	return due
}

func (b *Brain) handle(t loop.Token) {
	switch t {
	case loop.TokenSignals:
		b.Loop.Signals() // not for a brain
	case loop.TokenStdin:
		b.report(lifecycle.StdinClosed)
	case loop.TokenStdout:
		b.report(lifecycle.StdoutClosed)
	case loop.TokenClient:
		b.report(lifecycle.ClientDied)
	case loop.TokenInput:
		b.inputCame = true
		b.report(lifecycle.Woken)
		b.inputCame = false
	case loop.TokenMain:
		b.CloseHeld()
		b.perform(b.handleExit()) // without the status, which only its parent gets
	case loop.TokenEvents:
		var text [256]byte
		_, _ = unix.Pread(b.Events, text[:], 0) // before that there is no further event
		b.Loop.Again(b.Events, loop.TokenEvents)
		b.emptyCheckAt = time.Now()
		b.lookForRequest()
	case loop.TokenAdopted:
		b.adopted()
	case loop.TokenGuard:
		dead := b.Guard.Drain()
		b.readPage()
		if dead {
			b.loseGuard()
			return
		}
		b.Loop.Again(b.Guard.Sock, loop.TokenGuard)
	}
}

// loseGuard leaves the server to the brain of the next guard, which the launcher forks. Without a launcher
// this brain is the last process.
func (b *Brain) loseGuard() {
	if b.Page.ByGuard.Over || b.launcherLives() {
		b.quits = true
		return
	}
	b.report(lifecycle.GuardDied)
}

// eventsOf are those of the page, in the order in which they count.
var eventsOf = [page.Events]lifecycle.Event{
	page.StdinClosed: lifecycle.StdinClosed, page.StdoutClosed: lifecycle.StdoutClosed,
	page.ClientDied: lifecycle.ClientDied, page.StopRequested: lifecycle.StopRequested,
	page.LauncherDied: lifecycle.LauncherDied,
}

// readPage reports what launcher and guard have seen, with its time. An event is handled when the new state
// is on the page and this brain may still end the server: the next brain acts on one that is not.
func (b *Brain) readPage() {
	p := b.Page
	if p.ByLauncher.Forwarded != b.forwarded { // only a server that runs can react
		b.forwarded = p.ByLauncher.Forwarded
		b.report(lifecycle.Woken)
	}
	for p.ByBrain.SignalsRead != p.ByLauncher.SignalsGot && !b.replaced() {
		s := p.ByLauncher.Signals[p.ByBrain.SignalsRead%page.SignalsMost]
		b.report(lifecycle.Woken)
		all := b.life.HandleSignal(unix.Signal(s.Number), fromMonotonic(s.At))
		if !b.publish() {
			return
		}
		p.ByBrain.SignalsRead++
		b.performAs(all, s.ToMain)
	}
	for event := range page.Events {
		if event == page.MainExited || p.ByGuard.Happened[event] == 0 || b.isHandled(event) {
			continue
		}
		if event == page.LauncherDied {
			b.Group.ForgetRoot()
		}
		all := b.life.Handle(eventsOf[event], fromMonotonic(p.ByGuard.Happened[event]))
		if !b.publish() {
			return
		}
		p.ByBrain.Handled |= 1 << event
		b.perform(all)
	}
	gone := p.Exited() || p.ByGuard.Happened[page.MainExited] != 0 || p.ByLauncher.FailedStep == page.StepFork
	if gone && !b.replaced() && p.ByBrain.Handled&page.HandledEnd == 0 {
		all := b.handleExit()
		if !b.publish() {
			return
		}
		p.ByBrain.Handled |= page.HandledEnd | 1<<page.MainExited
		b.perform(all)
	}
}

func (b *Brain) isHandled(event int) bool {
	return b.replaced() || b.Page.ByBrain.Handled&(1<<event) != 0
}

// lookForRequest is the other side of ControlGroup.AskToStop.
func (b *Brain) lookForRequest() {
	if b.Config.Taken && b.Group.Cause() == protocol.StopRequested {
		b.report(lifecycle.StopRequested)
	}
}

// CloseHeld is for when the server does not read any more: the client gets its EPIPE.
func (b *Brain) CloseHeld() {
	_ = unix.Close(b.Held) // a copy, or -1
	b.Held = -1
}

func (b *Brain) report(e lifecycle.Event) { b.perform(b.life.Handle(e, time.Now())) }

// handleExit is for the end of the main process. It omits the steps of a stop if no member is left.
func (b *Brain) handleExit() []lifecycle.Action {
	e := lifecycle.MainExited
	if b.killedForMemory() {
		e = lifecycle.MemoryExhausted
	}
	empty := b.expectEmpty()
	all := b.life.Handle(e, time.Now())
	if b.life.State == lifecycle.Terminating && empty {
		return b.life.Handle(lifecycle.GroupEmptied, time.Now())
	}
	return all
}

// publish writes the state to the page, for the next brain, and the time when the guard starts one. It
// returns whether this brain may go on: it may have been stopped and replaced, or another process ends the
// server.
func (b *Brain) publish() bool {
	if b.replaced() {
		return false
	}
	p := b.Page
	state := b.life.State
	now := time.Now()
	if state >= lifecycle.Terminating && !b.claimEnd() {
		b.quits = true
		return false
	}
	p.ByBrain.Cause = b.life.Cause.Number() | uint32(b.life.Signal)<<16
	phase := b.phase()
	until := monotonic(b.life.Due(), now)
	if until != 0 { // before the phase: a brain in that phase without a deadline would never kill
		p.ByBrain.PhaseEnds = until
	}
	p.ByBrain.Phase = phase
	p.ByBrain.PhaseEnds = until
	due := monotonic(b.changesBy(now), now)
	if due != p.ByBrain.BrainReactsBy {
		p.ByBrain.BrainReactsBy = due
		b.Guard.Look()
	}
	if state >= lifecycle.Terminating && !b.endingNoted {
		b.endingNoted = true
		b.Group.Ending(b.life.Cause)
	}
	return !b.replaced()
}

// phase is the state that the next brain goes on at. A doubt begins again. The next watcher asks
// the client's side again.
func (b *Brain) phase() uint32 {
	state := b.life.State
	if state == lifecycle.Doubting {
		b.Page.ByBrain.Handled &^= 1 << page.ClientDied
		state = lifecycle.Running
	}
	if b.Config.Taken && state > lifecycle.Idle && state < lifecycle.Terminating {
		state = lifecycle.Running
	}
	return uint32(state)
}

// changesBy is when this brain has changed the deadline on the page, if it reacts. The guard sets one when it
// has news for a brain without a deadline.
func (b *Brain) changesBy(now time.Time) time.Time {
	next := b.deadline()
	switch {
	case b.life.State >= lifecycle.Killing:
		return now.Add(protocol.EndWithin(b.Config))
	case b.life.State >= lifecycle.Terminating:
		next = b.life.Due()
	}
	if next.IsZero() {
		return next
	}
	return next.Add(protocol.KillWithin)
}

// monotonic is a time on the clock of the page; 0 for none.
func monotonic(t, now time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // it can't fail
	return ts.Nano() + int64(t.Sub(now))
}

func fromMonotonic(nanos int64) time.Time {
	if nanos == 0 {
		return time.Time{}
	}
	now := time.Now()
	return now.Add(time.Duration(nanos - monotonic(now, now)))
}
