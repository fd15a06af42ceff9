// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"errors"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/causes"
	"github.com/mcpscope/mcpscope/internal/server/policy"
)

// A server of a test never exits by itself.
type server struct {
	*Lifecycle
	t0, now time.Time
	actions []Action
	unread  bool
	traffic func(since time.Duration) Traffic // nil for none
	blocked bool
	held    bool                                    // stdin is, by a process that is not the client
	hungUp  bool                                    // it is by none
	worked  func(since time.Duration) time.Duration // nil for no CPU
	hidden  bool                                    // its CPU time cannot be read
	killed  time.Time
}

func (s *server) Unread() bool    { return s.unread }
func (s *server) Blocked() bool   { return s.blocked }
func (s *server) Abandoned() bool { return !s.held }
func (s *server) HungUp() bool    { return s.hungUp }

func (s *server) Traffic() Traffic {
	if s.traffic == nil {
		return Traffic{}
	}
	return s.traffic(s.now.Sub(s.t0))
}

func (s *server) CPU() (time.Duration, error) {
	switch {
	case s.hidden:
		return 0, errors.New("unreadable")
	case s.worked == nil:
		return 0, nil
	}
	return s.worked(s.now.Sub(s.t0)), nil
}

func newServer(p policy.Policy) *server {
	s := &server{t0: time.Unix(0, 0), held: true}
	s.now = s.t0
	s.Lifecycle = New(p, s, s.now, s.now)
	return s
}

func (s *server) perform(all []Action) {
	s.actions = append(s.actions, all...)
	for _, a := range all {
		if a.Do == KillMembers {
			s.killed = s.now
			s.perform(s.Handle(GroupEmptied, s.now))
		}
	}
}

func (s *server) happens(e Event) { s.perform(s.Handle(e, s.now)) }

func (s *server) hangUp() {
	s.hungUp = true
	s.happens(StdinClosed)
}

func (s *server) send(sig unix.Signal) { s.perform(s.HandleSignal(sig, s.now)) }

// An event of a test happens some time after the start.
type event struct {
	after time.Duration
	do    func(*server)
}

// run advances the clock until the server has ended, or by a day.
func (s *server) run(events []event) {
	for s.State != Emptied && s.now.Sub(s.t0) < 24*time.Hour {
		next := s.Due()
		earlier := func(t time.Time) {
			if !t.IsZero() && (next.IsZero() || t.Before(next)) {
				next = t
			}
		}
		if len(events) > 0 {
			earlier(s.t0.Add(events[0].after))
		}
		if next.IsZero() {
			return
		}
		s.now = next
		switch {
		case len(events) > 0 && next.Equal(s.t0.Add(events[0].after)):
			events[0].do(s)
			events = events[1:]
		default:
			s.perform(s.HandleTime(s.now))
		}
	}
}

// When a server that does not exit by itself is killed, and why.
func TestWhenAServerIsKilled(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	died := func(s *server) { s.happens(ClientDied) }
	term := func(s *server) { s.send(unix.SIGTERM) }
	happens := func(e Event) func(*server) { return func(s *server) { s.happens(e) } }
	unread := func(s *server) { s.unread = true }
	read := func(s *server) { s.unread = false }
	worksFor := func(most time.Duration) func(time.Duration) time.Duration {
		return func(since time.Duration) time.Duration { return min(since, most) }
	}
	endless := func(p *policy.Policy) { p.TermGrace = -1 }
	idleOrOld := func(p *policy.Policy) { p.IdleTimeout, p.MaxLifetime = 10*time.Minute, time.Hour }
	for name, c := range map[string]struct {
		policy  func(*policy.Policy)
		worked  func(time.Duration) time.Duration
		traffic func(time.Duration) Traffic
		events  []event
		want    time.Duration
		cause   causes.Cause
	}{
		"the EOF grace, then the term grace": {events: []event{{0, (*server).hangUp}}, want: 2200 * ms, cause: causes.StdinClosed},
		"stdout is closed":                   {events: []event{{0, happens(StdoutClosed)}, {s, (*server).hangUp}}, want: 2200 * ms, cause: causes.StdoutClosed},
		"the EOF grace waits for the reader": {events: []event{{0, unread}, {0, (*server).hangUp}, {3*s + 20*ms, read}}, want: 3050*ms + 2200*ms, cause: causes.StdinClosed},
		"but not for ever":                   {events: []event{{0, unread}, {0, (*server).hangUp}}, want: policy.UnreadWait + 2200*ms, cause: causes.StdinClosed},
		"it waits for a client that reads late": {events: []event{{0, func(s *server) { s.blocked = true }}, {0, (*server).hangUp}},
			want: policy.UnreadWait + 2200*ms, cause: causes.StdinClosed},
		"but not for a dead one": {events: []event{{0, func(s *server) { s.blocked = true }}, {0, (*server).hangUp}, {4 * s, died}},
			want: 6200 * ms, cause: causes.StdinClosed},
		"output is blocked during the EOF grace": {events: []event{{0, (*server).hangUp}, {s, func(s *server) { s.blocked = true }}, {2 * s, func(s *server) { s.blocked = false }}},
			want: 2*s + 2200*ms, cause: causes.StdinClosed},
		"a dead client's server that is idle": {events: []event{{0, died}}, want: 11 * s, cause: causes.ClientIdle},
		"and one that works":                  {worked: worksFor(25 * s), events: []event{{0, died}}, want: 41 * s, cause: causes.ClientIdle},
		"and one of which that is unknown": {policy: func(p *policy.Policy) { p.MaxLifetime = time.Hour },
			events: []event{{0, func(s *server) { s.hidden = true }}, {0, died}}, want: time.Hour + s, cause: causes.LifetimeOver},
		"its stdin is closed meanwhile":       {events: []event{{0, died}, {4 * s, (*server).hangUp}}, want: 6200 * ms, cause: causes.ClientDied},
		"a client that crashes":               {events: []event{{0, func(s *server) { s.hungUp = true }}, {0, died}, {0, (*server).hangUp}}, want: 2200 * ms, cause: causes.ClientDied},
		"a client that dies in the EOF grace": {events: []event{{0, (*server).hangUp}, {s, died}}, want: 2200 * ms, cause: causes.StdinClosed},
		"and in one without an end": {policy: func(p *policy.Policy) { p.EOFGrace = -1 },
			events: []event{{0, (*server).hangUp}, {4 * s, died}}, want: 5 * s, cause: causes.StdinClosed},
		"a client that crashes, and a grace without an end": {policy: func(p *policy.Policy) { p.EOFGrace = -1 },
			events: []event{{0, func(s *server) { s.hungUp = true }}, {4 * s, died}}, want: 5 * s, cause: causes.ClientDied},
		"or its last holder exits":            {events: []event{{0, died}, {4 * s, func(s *server) { s.held = false }}}, want: 11 * s, cause: causes.ClientDied},
		"a client that only this server knew": {events: []event{{0, func(s *server) { s.held = false }}, {s, died}}, want: 2 * s, cause: causes.ClientDied},
		"a client's death that is ignored": {policy: func(p *policy.Policy) { p.OnClientDeath = policy.IgnoreClientDeath },
			events: []event{{0, died}, {50 * s, (*server).hangUp}, {51 * s, died}}, want: 52200 * ms, cause: causes.StdinClosed},
		"the main process exits":         {events: []event{{0, happens(MainExited)}, {s / 2, happens(GuardDied)}}, want: s / 2, cause: causes.MainExited},
		"it leaves others":               {events: []event{{0, happens(MainExited)}}, want: s, cause: causes.MainExited},
		"the memory limit":               {events: []event{{0, happens(MemoryExhausted)}}, want: s, cause: causes.MemoryExhausted},
		"stdin is closed, then a signal": {events: []event{{0, (*server).hangUp}, {s, term}}, want: 2 * s, cause: causes.StdinClosed},
		"a signal":                       {events: []event{{0, term}}, want: s, cause: causes.Signalled},
		"a repeat of it":                 {events: []event{{0, term}, {50 * ms, term}}, want: 50 * ms, cause: causes.Signalled},
		"a repeat at once":               {events: []event{{0, term}, {20 * ms, term}}, want: s, cause: causes.Signalled},
		"another signal":                 {events: []event{{0, term}, {500 * ms, func(s *server) { s.send(unix.SIGINT) }}}, want: s, cause: causes.Signalled},
		"a term grace without an end":    {policy: endless, events: []event{{0, term}, {20 * s, term}}, want: 20 * s, cause: causes.Signalled},
		"a request":                      {events: []event{{0, happens(StopRequested)}, {s / 2, happens(StopRequested)}}, want: s, cause: causes.StopRequested},
		"the launcher dies":              {events: []event{{0, happens(LauncherDied)}}, want: 0, cause: causes.LauncherGone},
		"it dies during the grace":       {events: []event{{0, term}, {s / 2, happens(LauncherDied)}}, want: s / 2, cause: causes.Signalled},
		"the guard dies":                 {events: []event{{0, happens(GuardDied)}}, want: 0, cause: causes.GuardGone},

		"a life that is over": {policy: func(p *policy.Policy) { p.MaxLifetime = time.Hour }, worked: worksFor(2 * time.Hour), want: time.Hour + s, cause: causes.LifetimeOver},
		"idle too long":       {policy: func(p *policy.Policy) { p.IdleTimeout = 10 * time.Minute }, want: 10*time.Minute + s, cause: causes.IdleTooLong},
		"a server with unread input is not": {policy: func(p *policy.Policy) { p.IdleTimeout, p.MaxLifetime = 10*time.Minute, time.Hour },
			events: []event{{0, unread}}, want: time.Hour + s, cause: causes.LifetimeOver},
		"nor is one in a call": {policy: idleOrOld, traffic: func(since time.Duration) Traffic { return Traffic{Read: 100} },
			want: time.Hour + s, cause: causes.LifetimeOver},
		"nor one whose helper has ended": {policy: idleOrOld, traffic: func(since time.Duration) Traffic {
			if since < 15*time.Minute {
				return Traffic{Read: 1000, Written: 100, Members: 2}
			}
			return Traffic{Read: 200, Written: 100, Members: 1} // 100 of them since
		}, want: time.Hour + s, cause: causes.LifetimeOver},
		"not for ever": {policy: func(p *policy.Policy) { p.IdleTimeout = 10 * time.Minute },
			traffic: func(time.Duration) Traffic { return Traffic{Read: 100} }, want: 70*time.Minute + s, cause: causes.IdleTooLong},
		"but one that has answered": {policy: idleOrOld, traffic: func(since time.Duration) Traffic {
			if since < 25*time.Minute {
				return Traffic{Read: 100}
			}
			return Traffic{Read: 100, Written: 100}
		}, want: 30*time.Minute + s, cause: causes.IdleTooLong},
		"and one that reads now and then": {policy: idleOrOld, traffic: func(since time.Duration) Traffic {
			n := int64(min(since, 35*time.Minute) / time.Minute)
			return Traffic{Read: 100 * n, Written: 100 * n}
		}, want: 50*time.Minute + s, cause: causes.IdleTooLong},
	} {
		t.Run(name, func(t *testing.T) {
			p := policy.Default()
			if c.policy != nil {
				c.policy(&p)
			}
			server := newServer(p)
			server.worked = c.worked
			server.traffic = c.traffic
			server.run(c.events)
			if took := server.killed.Sub(server.t0); server.killed.IsZero() || took != c.want || server.Cause != c.cause {
				t.Errorf("killed after %v because of %q, want %v, %q", took, server.Cause, c.want, c.cause)
			}
			sent := slices.DeleteFunc(slices.Clone(server.actions), func(a Action) bool { return a.Do != SendSignal })
			if len(sent) > 1 {
				t.Errorf("%d signals were sent to the members, want at most 1", len(sent))
			}
		})
	}
}

// A server that exits on the signal is not killed.
func TestEmptiedInTime(t *testing.T) {
	s := newServer(policy.Default())
	s.run([]event{{0, func(s *server) { s.send(unix.SIGINT) }}, {time.Second / 2, func(s *server) { s.happens(GroupEmptied) }}})
	if want := []Action{{SendSignal, unix.SIGINT}}; s.State != Emptied || !slices.Equal(s.actions, want) || s.Signal != unix.SIGINT {
		t.Errorf("state %v, actions %v, signal %v", s.State, s.actions, s.Signal)
	}
}

// The next brain continues in the state and with the deadline that it finds.
func TestResume(t *testing.T) {
	now := time.Unix(100, 0)
	half := now.Add(time.Second / 2)
	for _, c := range []struct {
		at    State
		asked bool
		died  Event
		want  []Action
		then  State
	}{
		{Running, false, LauncherDied, []Action{{Do: KillMembers}}, Killing},
		{InEOFGrace, false, LauncherDied, []Action{{Do: KillMembers}}, Killing},
		{Terminating, true, LauncherDied, []Action{{Do: KillMembers}}, Killing},
		{InEOFGrace, false, BrainDied, nil, InEOFGrace},
		{Terminating, false, BrainDied, []Action{{SendSignal, unix.SIGTERM}}, Terminating},
		{Terminating, true, BrainDied, []Action{{Do: ThawMembers}}, Terminating},
		{Killing, true, BrainDied, []Action{{Do: KillMembers}}, Killing},
		{Emptied, true, BrainDied, nil, Emptied},
	} {
		s := newServer(policy.Default())
		s.Resume(Left{State: c.at, PhaseEnds: half, SignalSent: c.asked})
		if got := s.Handle(c.died, now); !slices.Equal(got, c.want) || s.State != c.then {
			t.Errorf("%v: %v, then %v, want %v, then %v", c.at, got, s.State, c.want, c.then)
		}
	}
	s := newServer(policy.Default())
	s.Resume(Left{State: Terminating, PhaseEnds: half, Cause: causes.Signalled, Signal: unix.SIGHUP})
	if !s.Due().Equal(half) {
		t.Errorf("due at %v, want what was left of the grace", s.Due())
	}
	if got, want := s.Handle(BrainDied, now), []Action{{SendSignal, unix.SIGHUP}}; !slices.Equal(got, want) {
		t.Errorf("%v, want the client's signal: %v", got, want)
	}
	if s.HandleSignal(unix.SIGHUP, now); s.State != Killing {
		t.Errorf("state %v after the same signal, want the kill", s.State)
	}
}

// The next brain knows whether the memory of an idle server was reclaimed: only then a grace is longer.
func TestResumeOfAnIdleServer(t *testing.T) {
	for reclaimed, want := range map[bool]time.Duration{
		false: policy.Default().TermGrace,
		true:  policy.Default().TermGrace + policy.ReclaimedWithin,
	} {
		s := newServer(policy.Default())
		s.Resume(Left{State: Idle, Reclaimed: reclaimed})
		s.Handle(StopRequested, s.now)
		if got := s.Due().Sub(s.now); got != want {
			t.Errorf("reclaimed: %v: a grace of %v, want %v", reclaimed, got, want)
		}
	}
}

// Each event thaws an idle server first, and then has the effect that it has on one that runs.
func TestIdle(t *testing.T) {
	for e := range events {
		running := newServer(policy.Default())
		idle := newServer(policy.Default())
		if got := idle.Handle(MembersFrozen, idle.now); idle.State != Idle || len(got) > 0 {
			t.Fatalf("state %v, actions %v", idle.State, got)
		}
		want := append([]Action{{Do: WakeMembers}}, running.Handle(e, running.now)...)
		if got := idle.Handle(e, idle.now); !slices.Equal(got, want) || idle.State != running.State || idle.Cause != running.Cause {
			t.Errorf("event %v: %v, then %v, want %v, then %v", e, got, idle.State, want, running.State)
		}
	}
}

// A server whose memory was reclaimed gets time to read it back: of the graces that run then, and of no
// later one.
func TestGraceAfterReclaim(t *testing.T) {
	const s, more = time.Second, policy.ReclaimedWithin
	term := func(s *server) { s.send(unix.SIGTERM) }
	freezes := func(s *server) { s.Reclaimed = true; s.happens(MembersFrozen) }
	for name, c := range map[string]struct {
		end  event
		want time.Duration
	}{
		"stdin is closed":    {event{2 * s, (*server).hangUp}, 4200*time.Millisecond + more},
		"a signal":           {event{2 * s, term}, 3*s + more},
		"the client's death": {event{2 * s, func(s *server) { s.held = false; s.happens(ClientDied) }}, 3*s + more},
		"the guard's death":  {event{2 * s, func(s *server) { s.happens(GuardDied) }}, 2 * s},
		"soon after a wake":  {event{4 * s, term}, 2*s + more},
		"long after a wake":  {event{20 * s, term}, 21 * s},
	} {
		t.Run(name, func(t *testing.T) {
			x := newServer(policy.Default())
			x.run([]event{{s, freezes}, {s, func(x *server) {
				if c.end.after > 2*s {
					x.happens(Woken)
				}
			}}, c.end})
			if took := x.killed.Sub(x.t0); took != c.want {
				t.Errorf("killed after %v, want %v", took, c.want)
			}
		})
	}
}
