// SPDX-License-Identifier: Apache-2.0

//go:build linux

package launcher

import (
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/scope/internal/group"
	"github.com/mcpscope/mcpscope/scope/internal/lifecycle"
	"github.com/mcpscope/mcpscope/scope/internal/protocol"
	"github.com/mcpscope/mcpscope/test/groups"
)

// held is a group whose supervisor does nothing.
type held struct {
	group.Launched
	members groups.Stubborn
	stopped bool
	woken   int
}

func (h *held) Ident() string           { return "" }
func (h *held) Members() group.Payload  { return &h.members }
func (h *held) SupervisorStopped() bool { return h.stopped }
func (h *held) Adopt()                  {}

func (h *held) WakeSupervisor()                { h.woken++ }
func (h *held) KillSupervisor()                {}
func (h *held) EndAll() (freeze.Result, error) { return freeze.Result{}, h.members.Kill() }
func (h *held) Remove() error                  { return nil }

// When the launcher ends a server whose supervisor does not act: in virtual time.
func TestWhenTheLauncherActsItself(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	term := func(l *launcher) { l.handleSignal(unix.SIGTERM) }
	hungUp := func(l *launcher) { _, _ = l.handle(lifecycle.TokenStdin) }
	type event struct {
		after time.Duration
		do    func(*launcher)
	}
	const patience = protocol.ExtendMost * protocol.ExtendBy
	for name, c := range map[string]struct {
		grace    time.Duration
		starting bool
		stopped  bool
		events   []event
		killed   time.Duration // 0 is never
		over     time.Duration // when the supervisor counts as dead; 0 is never
		woken    int           // in an hour, or until it is over
	}{
		"it is slow":                           {grace: s, events: []event{{s, term}}, killed: 3*s + patience, over: 3*s + patience, woken: 1},
		"it is stopped again and again":        {grace: s, stopped: true, events: []event{{s, term}}, killed: 3 * s, over: 3*s + patience, woken: 1 + protocol.ExtendMost},
		"and what is due later does not":       {grace: s, events: []event{{0, term}, {s, hungUp}}, killed: 2*s + patience, over: 2*s + patience, woken: 2},
		"and was closed for good later":        {grace: s, events: []event{{0, hungUp}, {60 * s, term}}, killed: 62*s + patience, over: 62*s + patience, woken: 2},
		"a grace without an end":               {grace: -1, events: []event{{0, term}}},
		"it has not said that the server runs": {grace: s, starting: true, woken: int(time.Hour / protocol.StartedWithin)},
		"a stop was asked for before it has":   {grace: s, starting: true, events: []event{{50 * ms, term}}, killed: 2050*ms + patience, over: 2050*ms + patience, woken: 1},
		"and it says so then":                  {grace: s, starting: true, events: []event{{50 * ms, term}, {s, func(l *launcher) { l.pidfd = 0; l.awaitNext() }}}, killed: 2050*ms + patience, over: 2050*ms + patience, woken: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := protocol.DefaultPolicy()
				p.TermGrace = c.grace
				h := &held{stopped: c.stopped}
				l := &launcher{server: &Server{Policy: p, Report: -1}, config: &protocol.Config{}, group: h, client: &lifecycle.ClientSide{PIDFD: -1, Main: -1},
					control: protocol.Control{In: -1, Out: -1}}
				l.due.Set(protocol.StartedWithin)
				if c.starting {
					l.pidfd = -1
				} else {
					l.awaitNext()
				}
				born, hour := time.Now(), time.After(time.Hour+ms)
				var over time.Duration
				for done := false; !done; {
					var next <-chan time.Time
					if len(c.events) > 0 {
						next = time.After(c.events[0].after - time.Since(born))
					}
					var due <-chan time.Time
					if at := l.due.At(); !at.IsZero() {
						due = time.After(time.Until(at))
					}
					select {
					case <-next:
						c.events[0].do(l)
						c.events = c.events[1:]
					case <-due:
						l.due.Stop()
						if done, _ = l.overdue(); done {
							over = time.Since(born)
						}
					case <-hour:
						done = true
					}
				}
				var killed time.Duration
				if !h.members.Killed.IsZero() {
					killed = h.members.Killed.Sub(born)
				}
				if killed != c.killed || over != c.over || h.woken != c.woken {
					t.Errorf("killed after %v, over after %v, woken %d times; want %v, %v, %d", killed, over, h.woken, c.killed, c.over, c.woken)
				}
			})
		})
	}
}
