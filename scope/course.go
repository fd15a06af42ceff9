//go:build linux

package scope

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/freeze"
)

// phase is where a server is on its way to the end.
type phase int

const (
	running   phase = iota
	doubting        // the client is dead, but someone holds stdin open
	draining        // stdin is closed, input is still unread
	finishing       // the EOF grace runs
	stopping        // the ladder runs
	stopped         // the group is empty, or the ladder gave up on a stuck member
)

// course takes one payload from running to stopped: it is told what happened, and
// decides.
type course struct {
	policy  Policy
	payload payload
	in      *clientSide
	inspect func() inspected // of members that are frozen and about to be killed; may be nil

	phase    phase
	cause    Cause
	signal   unix.Signal // for the cause signalled
	clientUp bool
	received map[unix.Signal]time.Time // the first time
	hurry    *freeze.Flag
	timer    *time.Timer
	until    time.Time // end of draining
	cpu      time.Duration
	ladder   chan climbed
	result   freeze.Result
	seen     inspected // of those who had to be killed
}

// climbed is what came of a ladder.
type climbed struct {
	freeze.Result
	seen inspected
}

func newCourse(p Policy, payload payload, in *clientSide) (*course, error) {
	hurry, err := freeze.NewFlag()
	if err != nil {
		return nil, err
	}
	return &course{
		policy: p, payload: payload, in: in, clientUp: true, received: map[unix.Signal]time.Time{},
		hurry: hurry, timer: stoppedTimer(), ladder: make(chan climbed, 1),
	}, nil
}

// because notes the first cause.
func (c *course) because(why Cause) {
	if c.cause == "" {
		c.cause = why
	}
}

// hungUp: the client has closed its end of stdin or stdout.
func (c *course) hungUp(why Cause) {
	switch {
	case c.phase > doubting:
	case !c.clientUp && c.policy.OnClientDeath != IgnoreClientDeath:
		c.because(clientDied)
		c.stop(unix.SIGTERM)
	default:
		c.because(why)
		c.until = time.Now().Add(unreadWait)
		c.phase = draining
		c.drain()
	}
}

// drain begins the EOF grace when the server has read what the client wrote, and a client that lives
// has read enough for the server to go on writing. No event tells a bystander that a pipe has been
// emptied, so it is asked again now and then, for a bounded time.
func (c *course) drain() {
	if c.policy.EOFGrace >= 0 && (c.in.unread() || c.blocked()) && time.Now().Before(c.until) {
		c.after(unreadEvery)
		return
	}
	c.phase = finishing
	if c.policy.EOFGrace >= 0 {
		c.after(c.policy.EOFGrace)
	}
}

// blocked tells whether the server has to wait for the client before it can write.
func (c *course) blocked() bool { return c.clientUp && c.in.blocked() }

// clientDied: the process that started the launcher has ended.
func (c *course) clientDied() {
	if !c.clientUp {
		return
	}
	c.clientUp = false
	if c.policy.OnClientDeath == IgnoreClientDeath || c.phase >= stopping {
		return
	}
	if c.phase != running || c.in.hungUp() || c.abandoned() {
		c.because(clientDied)
		c.stop(unix.SIGTERM)
		return
	}
	c.phase = doubting
	c.cpu = c.payload.CPU()
	c.after(idleWindow)
}

// abandoned tells whether nobody is left who could send the server anything, or be waited for.
func (c *course) abandoned() bool {
	if c.in.sure || !c.in.conveyed && c.policy.OnClientDeath == StopOnClientDeath {
		return true
	}
	return c.in.conveyed && c.in.heldByNobodyBut(c.payload)
}

// doubt ends a server without a client when it has done nothing for a window, or when nobody holds its
// stdin open any more.
func (c *course) doubt() {
	if c.abandoned() {
		c.because(clientDied)
		c.stop(unix.SIGTERM)
		return
	}
	before := c.cpu
	c.cpu = c.payload.CPU()
	if c.cpu-before >= idleCPU {
		c.after(idleWindow)
		return
	}
	c.because(clientIdle)
	c.stop(unix.SIGTERM)
}

// signalled: the client, or a person, has sent sig to end the server.
func (c *course) signalled(sig unix.Signal) {
	first, again := c.received[sig]
	if !again {
		c.received[sig] = time.Now()
	}
	switch {
	case c.phase < stopping:
		if c.cause == "" {
			c.signal = sig
		}
		c.because(signalled)
		c.stop(sig)
	case again && time.Since(first) >= repeatAfter:
		c.hurry.Raise()
	}
}

// end: something else that leaves nothing to wait for but the ladder.
func (c *course) end(why Cause) {
	switch c.phase {
	case stopping, stopped:
	default:
		c.because(why)
		c.stop(unix.SIGTERM)
	}
}

// shorten gives the ladder another grace than the policy. One that runs already can only be
// ended.
func (c *course) shorten(grace time.Duration) {
	if c.phase < stopping {
		c.policy.TermGrace = grace
	} else if grace == 0 {
		c.hurry.Raise()
	}
}

// kill skips what is left of the ladder but the kill: its grace is over.
func (c *course) kill() {
	c.hurry.Raise()
	if c.phase < stopping {
		c.climb(freeze.Stop{Target: c.payload})
		c.phase = stopping
	}
}

// elapsed: the timer of the present phase has run out.
func (c *course) elapsed() {
	switch c.phase {
	case doubting:
		c.doubt()
	case draining:
		c.drain()
	case finishing:
		if c.in.open() { // a FIFO that has got another writer
			c.phase, c.cause = running, ""
			c.in.watchAgain()
			return
		}
		if c.blocked() && time.Now().Before(c.until) {
			c.phase = draining
			c.after(unreadEvery)
			return
		}
		c.stop(unix.SIGTERM)
	}
}

// after lets the present phase last for d.
func (c *course) after(d time.Duration) { c.timer.Reset(d) }

func (c *course) stop(ask unix.Signal) {
	c.timer.Stop()
	c.phase = stopping
	c.climb(freeze.Stop{Target: c.payload, Ask: ask, Grace: c.policy.TermGrace, Hurry: c.hurry})
}

func (c *course) climb(s freeze.Stop) {
	go func() {
		var end climbed
		if c.inspect != nil {
			s.Frozen = func() { end.seen = c.inspect() }
		}
		end.Result, _ = s.Run() // who ends the group looks once more whether it is empty
		c.ladder <- end
	}()
}

// climbed takes the ladder's outcome.
func (c *course) climbed(end climbed) {
	c.phase, c.result, c.seen = stopped, end.Result, end.seen
}
