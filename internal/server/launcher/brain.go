// SPDX-License-Identifier: Apache-2.0

//go:build linux

package launcher

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/kernel/loop"
	"github.com/mcpscope/mcpscope/internal/kernel/signals"
	"github.com/mcpscope/mcpscope/internal/server/client"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/idle"
	"github.com/mcpscope/mcpscope/internal/server/lifecycle"
	"github.com/mcpscope/mcpscope/internal/server/page"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/server/report"
)

// brain is the launcher or, after its death, the process that the guard starts instead.
type brain struct {
	config *protocol.Config
	page   *page.Page
	guard  *page.Guard // nil before it is forked
	group  group.Group // nil before it is made
	loop   *loop.Loop
	life   *lifecycle.Lifecycle
	client *client.Side // nil for a later brain
	rest   *idle.Rest   // nil for a server that is never frozen

	reign    uint32 // the page's, when this brain began
	later    bool   // a guard has started this brain
	deposed  bool   // the guard has started another brain
	begun    bool   // there is, or was, a main process
	exited   bool   // the main process has
	stops    uint32
	requests uint64
	due      time.Time // as the guard knows it

	held      int       // stdin, where that can be watched only by holding it; or -1
	events    int       // of the group, or -1
	lookAt    time.Time // the next look whether the group is empty
	pause     time.Duration
	terminal  bool
	subreaper bool     // PID 1 does not reap
	env       []string // the server's, for its container engine
	undone    string   // containers that may be left
	killed    []report.Killed
	total     int // members that had to be killed
	stuck     []freeze.Stuck
	notes     []string
	stderr    protocol.Stderr
	told      bool           // the group says that the server is being stopped
	finish    func()         // ends the sweep of this start
	beside    sync.WaitGroup // goroutines of tellStart
}

func newBrain(c *protocol.Config) (*brain, error) {
	l, err := loop.New()
	if err != nil {
		return nil, err
	}
	b := &brain{config: c, loop: l, held: -1, events: -1, stderr: protocol.StderrInherit, finish: func() {}}
	return b, nil
}

// places in Page.Keep
const (
	keepReport = iota
	keepAlive  // the end of a pipe that the watcher of a gateway has
	keepInput  // these of a server that its client has started
	keepRoom
	keepMain
)

// open makes the page. executable is the program of later brains.
func (b *brain) open(executable string) error {
	var err error
	if b.page, err = page.New(); err != nil {
		return err
	}
	program, err := unix.Open(executable, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", executable, err)
	}
	self, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return fmt.Errorf("open pidfd: %w", err)
	}
	p, c := b.page, b.client
	p.Program, p.Launcher = int32(program), int32(self)
	p.Keep[keepReport] = int32(b.config.Report)
	p.Stdin, p.Stdout, p.Client = int32(c.Stdin.FD()), int32(c.Stdout.FD()), int32(c.PIDFD)
	return nil
}

// begin starts the lifecycle, when there are guard and group.
func (b *brain) begin() error {
	c := b.config
	b.life = lifecycle.New(c.Policy, facts{b}, time.Now())
	b.reign, b.events = b.page.Reign, b.group.Events()
	if err := b.loop.Add(b.guard.Sock(), loop.TokenGuard); err != nil {
		return err
	}
	if b.events >= 0 {
		return b.loop.AddChanges(b.events, loop.TokenEvents)
	}
	return nil
}

// live returns when the group is empty, or when another brain has replaced this process.
func (b *brain) live() {
	for b.life.State != lifecycle.Emptied && !b.deposed {
		b.handle(b.loop.Next(b.deadline()))
		b.perform(b.life.HandleTime(time.Now()))
		b.lookAtRest()
		b.look()
	}
	switch {
	case !b.deposed:
		b.end()
	case !b.later && !b.config.Taken:
		b.wait()
	}
}

func (b *brain) deadline() time.Time {
	due := b.life.Due()
	if b.life.State >= lifecycle.Terminating && (due.IsZero() || b.lookAt.Before(due)) {
		return b.lookAt
	}
	if b.rest != nil && (due.IsZero() || b.rest.Due.Before(due)) {
		return b.rest.Due
	}
	return due
}

func (b *brain) handle(t loop.Token) {
	if b.readPage(); b.deposed { // news from before this event
		return
	}
	switch t {
	case loop.TokenSignals:
		for _, sig := range b.loop.Signals() {
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
		b.mainEnded()
	case loop.TokenEvents:
		b.readEvents()
	case loop.TokenGuard:
		dead := b.guard.Drain()
		b.readPage()
		if dead {
			b.report(lifecycle.GuardDied)
			return
		}
		b.loop.Again(b.guard.Sock(), loop.TokenGuard)
	}
}

// readPage handles news on the page.
func (b *brain) readPage() {
	p := b.page
	if p.Reign != b.reign {
		b.deposed = true
		return
	}
	if !b.begun && p.MainPID > 0 && p.FailedStep == page.StepNone {
		b.begun = true
		b.started()
	}
	if (p.Exited || p.FailedStep == page.StepFork) && !b.exited {
		b.exited = true
		b.lookAgain()
		if report.ExitCause(unix.WaitStatus(p.Status), b.group.Figures()) == protocol.MemoryExhausted {
			b.reportExit(lifecycle.MemoryExhausted)
		} else {
			b.reportExit(lifecycle.MainExited)
		}
	}
	if p.Stops != b.stops {
		b.stops = p.Stops
		b.stopToo(unix.Signal(p.StopSignal))
	}
	fresh := p.Requests &^ b.requests
	b.requests |= fresh
	for _, sig := range append(slices.Clip(signals.Ending), protocol.StopSignal) {
		if fresh&(1<<(sig-1)) != 0 {
			b.report(lifecycle.StopRequested)
		}
	}
}

// mainEnded: a main process has exited that is not the guard's child. Only its parent gets the status.
func (b *brain) mainEnded() {
	b.closeHeld()
	b.lookAgain()
	b.reportExit(lifecycle.MainExited)
}

// closeHeld is for when the server does not read any more: the client gets its EPIPE.
func (b *brain) closeHeld() {
	if b.held >= 0 {
		_ = unix.Close(b.held) // a copy
		b.held = -1
	}
}

// handleSignal handles a signal to this process or to its process group.
func (b *brain) handleSignal(sig unix.Signal) {
	if sig != unix.SIGCHLD {
		b.report(lifecycle.Woken) // only a server that runs can react
	}
	switch {
	case sig == unix.SIGCHLD:
		signals.ReapAll() // as init, or where init does not
	case terminalStops(sig): // the main process has got it: see jobcontrol.go
	case b.terminal && signals.TerminalSends(sig): // as well
	case signals.EndsServer(sig):
		b.perform(b.life.HandleSignal(sig, time.Now()))
	case b.page.MainPID > 0:
		b.guard.Forward(sig)
	}
}

func (b *brain) report(e lifecycle.Event) { b.perform(b.life.Handle(e, time.Now())) }

// reportExit omits the steps of a stop if no member is left.
func (b *brain) reportExit(e lifecycle.Event) {
	all := b.life.Handle(e, time.Now())
	if b.life.State == lifecycle.Terminating && !group.Populated(b.group.Members()) {
		all = b.life.Handle(lifecycle.GroupEmptied, time.Now())
	}
	b.perform(all)
}

// publish writes the state to the page, for a later brain, and the time when the guard starts one.
func (b *brain) publish() {
	state, now, due, phase := b.life.State, time.Now(), b.life.Due(), uint32(lifecycle.Running)
	if state == lifecycle.Idle || state >= lifecycle.Terminating {
		phase = uint32(state)
	}
	b.page.Cause = b.life.Cause.Number() | uint32(b.life.Signal)<<16
	if !due.IsZero() { // before the phase: a brain in that phase without a deadline would never kill
		b.page.Until = monotonic(due, now)
	}
	b.page.Phase = phase
	b.page.Until = monotonic(due, now)
	switch {
	case state <= lifecycle.Idle:
		due = time.Time{} // a server whose launcher is stopped goes on, as bare
	case state >= lifecycle.Killing:
		due = now.Add(protocol.EndWithin(b.config))
	case !due.IsZero():
		due = due.Add(protocol.KillWithin)
	}
	if !due.Equal(b.due) {
		b.due, b.page.Due = due, monotonic(due, now)
		b.guard.Look()
	}
	if state >= lifecycle.Terminating && !b.told {
		b.told = true
		b.group.Ending(b.life.Cause)
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
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // it can't fail
	return time.Now().Add(time.Duration(nanos - ts.Nano()))
}
