// SPDX-License-Identifier: Apache-2.0

// Package brain decides about a server, in the client's child or in the watcher of a gateway. After their
// death the guard starts a process that does the same. It reports events to the lifecycle and performs the
// actions. It exits after all processes of the server.
package brain

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/kernel/linux"
	"github.com/mcpscope/mcpscope/internal/kernel/loop"
	"github.com/mcpscope/mcpscope/internal/server/client"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/idle"
	"github.com/mcpscope/mcpscope/internal/server/lifecycle"
	"github.com/mcpscope/mcpscope/internal/server/page"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/server/report"
)

// Brain is that of one server. A later one is in the process that the guard starts.
type Brain struct {
	Config *protocol.Config
	Page   *page.Page
	Guard  *page.Guard         // nil before it is forked
	Group  *group.ControlGroup // nil before it is made
	Loop   *loop.Loop
	life   *lifecycle.Lifecycle
	Client *client.Side // nil for a later brain that stops the server
	rest   *idle.Rest   // nil for a server that is never frozen

	reign     uint32 // the page's, when this brain began: the guard has started each but 0
	begun     bool   // there is, or was, a main process
	exited    bool   // the main process has
	stops     uint32
	requests  uint64
	published published // to the guard

	Held        int       // stdin, where that can be watched only by holding it; or -1
	Events      int       // of the group, or -1
	lookAt      time.Time // the next look whether the group is empty
	pause       time.Duration
	Terminal    bool
	Env         []string // the server's, for its container engine
	undone      string   // containers that may be left
	recorded    bool     // others and othersTotal are
	othersTotal int
	others      []string // names of members beside the main process at the beginning of the stop
	killed      []report.Killed
	total       int    // members that had to be killed
	sentence    string // about the end; "" if there is no report, and without -v
	stuck       []freeze.Stuck
	finish      func()         // ends the sweep of this start
	Beside      sync.WaitGroup // goroutines of TellStart
}

// New is a brain that waits by that loop.
func New(c *protocol.Config, l *loop.Loop) *Brain {
	return &Brain{Config: c, Loop: l, Held: -1, Events: -1, finish: func() {}}
}

// Open makes the page. executable is the program of later brains.
func (b *Brain) Open(executable string) error {
	var errno unix.Errno
	if b.Page, errno = page.New(); errno != 0 {
		return fmt.Errorf("make the page: %w", errno)
	}
	program, err := unix.Open(executable, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", executable, err)
	}
	self, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return fmt.Errorf("open pidfd: %w", err)
	}
	p, c := b.Page, b.Client
	p.Program, p.Launcher = int32(program), int32(self)
	p.Keep, p.Graceless = int32(b.Config.Report), b.Config.Policy.TermGrace == 0
	p.Stdin, p.Stdout, p.Client = int32(c.Stdin), int32(c.Stdout), int32(c.PIDFD)
	return nil
}

// Begin starts the lifecycle, when there are guard and group.
func (b *Brain) Begin() (err error) {
	c := b.Config
	b.life = lifecycle.New(c.Policy, facts{b}, time.Now())
	b.reign, b.Events = b.Page.Reign, b.Group.Events()
	if !c.Taken { // the guard of such a server is not for long
		err = b.Loop.Add(b.Guard.Sock, loop.TokenGuard)
	}
	return cmp.Or(err, b.Loop.Add(b.Events, loop.TokenEvents))
}

// Live returns when the group is empty, or when another brain has replaced this process.
func (b *Brain) Live() {
	b.lookForRequest() // before there was Events
	for b.life.State != lifecycle.Emptied && !b.deposed() {
		b.handle(b.Loop.Next(b.deadline()))
		b.perform(b.life.HandleTime(time.Now()))
		b.lookAtRest()
		b.look()
	}
	switch {
	case !b.deposed():
		b.end()
	case b.reign == 0:
		b.wait()
	}
}

// deposed reports whether the guard has started another brain.
func (b *Brain) deposed() bool { return b.Page.Reign != b.reign }

func (b *Brain) deadline() time.Time {
	due := b.life.Due()
	if b.life.State >= lifecycle.Terminating && (due.IsZero() || b.lookAt.Before(due)) {
		return b.lookAt
	}
	if b.rest != nil && (due.IsZero() || b.rest.Due.Before(due)) {
		return b.rest.Due
	}
	return due
}

func (b *Brain) handle(t loop.Token) {
	if b.readPage(); b.deposed() { // news from before this event
		return
	}
	switch t {
	case loop.TokenSignals:
		for _, sig := range b.Loop.Signals() {
			b.handleSignal(sig)
		}
	case loop.TokenStdin:
		b.report(lifecycle.StdinClosed)
	case loop.TokenStdout:
		b.report(lifecycle.StdoutClosed)
	case loop.TokenClient:
		b.report(lifecycle.ClientDied)
	case loop.TokenInput:
		b.report(lifecycle.Woken)
	case loop.TokenMain:
		b.CloseHeld()
		b.reportExit(lifecycle.MainExited) // without the status, which only its parent gets
	case loop.TokenEvents:
		var text [256]byte
		_, _ = unix.Pread(b.Events, text[:], 0) // before that there is no further event
		b.Loop.Again(b.Events, loop.TokenEvents)
		b.lookAt = time.Now()
		b.lookForRequest()
	case loop.TokenAdopted:
		b.Group.Park()
	case loop.TokenGuard:
		dead := b.Guard.Drain()
		b.readPage()
		if dead {
			b.report(lifecycle.GuardDied)
			return
		}
		b.Loop.Again(b.Guard.Sock, loop.TokenGuard)
	}
}

func (b *Brain) readPage() {
	p := b.Page
	if b.deposed() {
		return
	}
	if !b.begun && p.MainPID > 0 && p.FailedStep == page.StepNone {
		b.TellStart() // its exec may still fail
	}
	if (p.Exited || p.FailedStep == page.StepFork) && !b.exited {
		b.exited = true
		event := lifecycle.MainExited
		// the sender is unknown; but a kernel that kills whole groups has killed the main process
		if unix.WaitStatus(p.Status).Signal() == unix.SIGKILL && b.Group.Figures().Exhausted() {
			event = lifecycle.MemoryExhausted
		}
		b.reportExit(event)
	}
	if p.Stops != b.stops {
		b.stops = p.Stops
		b.stopToo(unix.Signal(p.StopSignal))
	}
	fresh := p.Requests &^ b.requests
	b.requests |= fresh
	for _, sig := range append(slices.Clip(linux.Ending), protocol.StopSignal) {
		if fresh&(1<<(sig-1)) != 0 {
			b.report(lifecycle.StopRequested)
		}
	}
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

// handleSignal handles a signal to this process or to its process group.
func (b *Brain) handleSignal(sig unix.Signal) {
	b.report(lifecycle.Woken) // only a server that runs can react
	switch {
	case b.Terminal && slices.Contains(linux.OfTerminal, sig): // the main process has got it
	case slices.Contains(linux.Ending, sig):
		b.perform(b.life.HandleSignal(sig, time.Now()))
	case b.Page.MainPID > 0:
		b.Guard.Send(page.WordForward + byte(sig))
	}
}

func (b *Brain) report(e lifecycle.Event) { b.perform(b.life.Handle(e, time.Now())) }

// reportExit omits the steps of a stop if no member is left.
func (b *Brain) reportExit(e lifecycle.Event) {
	empty := b.lookAgain()
	all := b.life.Handle(e, time.Now())
	if b.life.State == lifecycle.Terminating && empty {
		all = b.life.Handle(lifecycle.GroupEmptied, time.Now())
	}
	b.perform(all)
}

// published is all that publish depends on, which is called after each event. The page begins with zero.
type published struct {
	state lifecycle.State
	cause protocol.Cause
	due   time.Time
}

// publish writes the state to the page, for a later brain, and the time when the guard starts one.
func (b *Brain) publish() {
	fresh := published{b.life.State, b.life.Cause, b.life.Due()}
	if fresh == b.published {
		return
	}
	b.published = fresh
	state, now, due, phase := fresh.state, time.Now(), fresh.due, uint32(lifecycle.Running)
	if state == lifecycle.Idle || state >= lifecycle.Terminating {
		phase = uint32(state)
	}
	b.Page.Cause = b.life.Cause.Number() | uint32(b.life.Signal)<<16
	if !due.IsZero() { // before the phase: a brain in that phase without a deadline would never kill
		b.Page.Until = monotonic(due, now)
	}
	b.Page.Phase = phase
	b.Page.Until = monotonic(due, now)
	switch {
	case state <= lifecycle.Idle:
		due = time.Time{} // a server whose launcher is stopped goes on, as bare
	case state >= lifecycle.Killing:
		due = now.Add(protocol.EndWithin(b.Config))
	case !due.IsZero():
		due = due.Add(protocol.KillWithin)
	}
	if at := monotonic(due, now); at != b.Page.Due {
		b.Page.Due = at
		b.Guard.Look()
	}
	if state >= lifecycle.Terminating {
		b.Group.Ending(b.life.Cause)
	}
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
