// SPDX-License-Identifier: Apache-2.0

//go:build linux

package lifecycle

import (
	"math"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/server/report"
	"github.com/mcpscope/mcpscope/internal/signals"
)

// phase is where a server is on its way to the end.
type phase int

const (
	running   phase = iota
	doubting        // the client is dead, but someone holds stdin open
	draining        // stdin is closed, input is still unread
	finishing       // the EOF grace runs
	Stopping        // the ladder runs
	Stopped         // the group is empty, or the ladder gave up on a stuck member
)

// Lifecycle takes one payload from running to stopped: it is told what happened, and
// decides.
type Lifecycle struct {
	policy  protocol.Policy
	payload group.Payload
	in      *ClientSide
	Inspect func() Inspected // of members that are frozen and about to be killed; may be nil

	Phase    phase
	Cause    protocol.Cause
	Signal   unix.Signal // for the cause signalled
	clientUp bool
	received map[unix.Signal]time.Time // the first time
	hurry    *freeze.Flag
	Alarm    Alarm     // of the present phase
	until    time.Time // end of draining, or of the term grace
	cpu      time.Duration
	Ladder   chan climbed // signals.Wake tells of it
	// Beside is added to the term grace for what has to be done before the kill; Hurry says that it is done. Then
	// Alarm rings at the end of the grace itself.
	Beside time.Duration
	Result freeze.Result
}

// climbed is what came of a ladder.
type climbed struct {
	freeze.Result
	Seen Inspected
}

func New(p protocol.Policy, payload group.Payload, in *ClientSide) (*Lifecycle, error) {
	hurry, err := freeze.NewFlag()
	if err != nil {
		return nil, err
	}
	return &Lifecycle{
		policy: p, payload: payload, in: in, clientUp: true, received: map[unix.Signal]time.Time{},
		hurry: hurry, Ladder: make(chan climbed, 1),
	}, nil
}

// Because notes the first cause.
func (c *Lifecycle) Because(why protocol.Cause) {
	if c.Cause == "" {
		c.Cause = why
	}
}

// HungUp: the client has closed its end of stdin or stdout.
func (c *Lifecycle) HungUp(why protocol.Cause) {
	switch {
	case c.Phase > doubting:
	case !c.clientUp && c.policy.OnClientDeath != protocol.IgnoreClientDeath:
		c.Because(protocol.ClientDied)
		c.stop(unix.SIGTERM)
	default:
		c.Because(why)
		c.until = time.Now().Add(protocol.UnreadWait)
		c.Phase = draining
		c.drain()
	}
}

// drain begins the EOF grace when the server has read what the client wrote, and a client that lives
// has read enough for the server to go on writing. No event tells a bystander that a pipe has been
// emptied, so it is asked again now and then, for a bounded time.
func (c *Lifecycle) drain() {
	if c.policy.EOFGrace >= 0 && (c.in.unread() || c.blocked()) && time.Now().Before(c.until) {
		c.after(protocol.UnreadEvery)
		return
	}
	c.Phase = finishing
	if c.policy.EOFGrace >= 0 {
		c.after(c.policy.EOFGrace)
	}
}

// blocked tells whether the server has to wait for the client before it can write.
func (c *Lifecycle) blocked() bool { return c.clientUp && c.in.blocked() }

// ClientDied: the process that started the launcher has ended.
func (c *Lifecycle) ClientDied() {
	if !c.clientUp {
		return
	}
	c.clientUp = false
	if c.policy.OnClientDeath == protocol.IgnoreClientDeath || c.Phase >= Stopping {
		return
	}
	if c.Phase != running || c.in.HungUp() || c.abandoned() {
		c.Because(protocol.ClientDied)
		c.stop(unix.SIGTERM)
		return
	}
	c.Phase = doubting
	c.cpu = c.payload.CPU()
	c.after(protocol.IdleWindow)
}

// abandoned tells whether nobody is left who could send the server anything, or be waited for.
func (c *Lifecycle) abandoned() bool {
	if c.in.Sure || !c.in.Conveyed && c.policy.OnClientDeath == protocol.StopOnClientDeath {
		return true
	}
	return c.in.Conveyed && c.in.HeldByNobodyBut(c.payload)
}

// doubt ends a server without a client when it has done nothing for a window, or when nobody holds its
// stdin open any more.
func (c *Lifecycle) doubt() {
	if c.abandoned() {
		c.Because(protocol.ClientDied)
		c.stop(unix.SIGTERM)
		return
	}
	before := c.cpu
	c.cpu = c.payload.CPU()
	if c.cpu-before >= protocol.IdleCPU {
		c.after(protocol.IdleWindow)
		return
	}
	c.Because(protocol.ClientIdle)
	c.stop(unix.SIGTERM)
}

// Signalled: the client, or a person, has sent sig to end the server.
func (c *Lifecycle) Signalled(sig unix.Signal) {
	first, again := c.received[sig]
	if !again {
		c.received[sig] = time.Now()
	}
	switch {
	case c.Phase < Stopping:
		if c.Cause == "" {
			c.Signal = sig
		}
		c.Because(protocol.Signalled)
		c.stop(sig)
	case again && time.Since(first) >= protocol.RepeatAfter:
		c.hurry.Raise()
	}
}

// End: something else that leaves nothing to wait for but the ladder.
func (c *Lifecycle) End(why protocol.Cause) {
	switch c.Phase {
	case Stopping, Stopped:
	default:
		c.Because(why)
		c.stop(unix.SIGTERM)
	}
}

// EndGrace ends the term grace, also one that has not begun. What is done beside it keeps its time. The server itself can
// cause this, so nothing lengthens a grace.
func (c *Lifecycle) EndGrace() {
	c.policy.TermGrace, c.until = 0, time.Now()
	switch {
	case c.Phase != Stopping:
	case c.Beside > 0:
		c.after(0)
	default:
		c.hurry.Raise()
	}
}

// Kill skips what is left of the ladder but the kill: its grace is over.
func (c *Lifecycle) Kill() {
	c.hurry.Raise()
	if c.Phase < Stopping {
		c.until = time.Now()
		c.climb(freeze.Stop{Target: c.payload})
		c.Phase = Stopping
	}
}

// Elapsed: the alarm of the present phase rings.
func (c *Lifecycle) Elapsed() {
	switch c.Phase {
	case doubting:
		c.doubt()
	case draining:
		c.drain()
	case finishing:
		if c.in.Open() { // a FIFO that has got another writer
			c.Phase, c.Cause = running, ""
			c.in.WatchAgain()
			return
		}
		if c.blocked() && time.Now().Before(c.until) {
			c.Phase = draining
			c.after(protocol.UnreadEvery)
			return
		}
		c.stop(unix.SIGTERM)
	}
}

// after lets the present phase last for d.
func (c *Lifecycle) after(d time.Duration) { c.Alarm.Set(d) }

func (c *Lifecycle) stop(ask unix.Signal) {
	c.Alarm.Stop()
	c.Phase = Stopping
	grace := c.policy.TermGrace
	c.until = time.Now().Add(grace)
	if grace >= 0 && c.Beside > 0 {
		c.after(grace)
		grace += c.Beside
	}
	c.climb(freeze.Stop{Target: c.payload, Ask: ask, Grace: grace, Hurry: c.hurry})
}

// Hurry ends the grace.
func (c *Lifecycle) Hurry() { c.hurry.Raise() }

// GraceLeft is what is left of the term grace of a server that was asked to end: less than 0 when it is over, and much
// if it has no end.
func (c *Lifecycle) GraceLeft() time.Duration {
	if c.policy.TermGrace < 0 {
		return math.MaxInt64
	}
	return time.Until(c.until)
}

func (c *Lifecycle) climb(s freeze.Stop) {
	go func() {
		var end climbed
		if c.Inspect != nil {
			s.Frozen = func() { end.Seen = c.Inspect() }
		}
		end.Result, _ = s.Run() // who ends the group looks once more whether it is empty
		c.Ladder <- end
		signals.Wake()
	}()
}

// Climbed takes the ladder's outcome.
func (c *Lifecycle) Climbed(end climbed) {
	c.Phase, c.Result = Stopped, end.Result
}

// Inspected are members that had to be killed.
type Inspected struct {
	All   []report.Killed
	Total int
}
