// SPDX-License-Identifier: Apache-2.0

package brain

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/causes"
	"github.com/mcpscope/mcpscope/internal/server/lifecycle"
	"github.com/mcpscope/mcpscope/internal/server/page"
	"github.com/mcpscope/mcpscope/internal/server/policy"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// gone is a client that has left, and a server without unread input.
type gone struct{}

func (gone) Unread() bool                { return false }
func (gone) Blocked() bool               { return false }
func (gone) HungUp() bool                { return false }
func (gone) Abandoned() bool             { return true }
func (gone) CPU() (time.Duration, error) { return 0, nil }
func (gone) Traffic() lifecycle.Traffic  { return lifecycle.Traffic{} }

func newLifecycle() *lifecycle.Lifecycle {
	at := time.Unix(1, 0)
	return lifecycle.New(policy.Default(), gone{}, at, at)
}

// A launcher of whose server nothing is left finds the cause that a brain would have found.
func TestCauseWithoutABrain(t *testing.T) {
	for event, want := range causesSeen {
		if want == "" {
			continue
		}
		l := newLifecycle()
		l.Handle(eventsOf[event], time.Unix(2, 0))
		if l.Cause != want {
			t.Errorf("event %d: the lifecycle has the cause %q, and the launcher %q", event, l.Cause, want)
		}
		p := &page.Page{}
		p.ByGuard.Happened[event] = 1
		r := &record{server: &Server{Config: protocol.NewConfig(), Page: p}}
		if got, _ := r.causeSeen(); got != want {
			t.Errorf("event %d alone: the cause is %q, want %q", event, got, want)
		}
	}
}

// The first event is the cause. A signal counts as an event.
func TestCauseIsTheFirstEvent(t *testing.T) {
	p := &page.Page{}
	r := &record{server: &Server{Config: protocol.NewConfig(), Page: p}}
	if got, _ := r.causeSeen(); got != causes.MainExited {
		t.Errorf("the cause is %q without an event, want %q", got, causes.MainExited)
	}
	p.ByGuard.Happened[page.StdoutClosed] = 7
	p.ByGuard.Happened[page.StdinClosed] = 8
	p.AddSignal(page.Signal{At: 9, Number: 15})
	if got, _ := r.causeSeen(); got != causes.StdoutClosed {
		t.Errorf("the cause is %q, want %q", got, causes.StdoutClosed)
	}
	p.ByLauncher.Signals[0].At = 6
	if got, sig := r.causeSeen(); got != causes.Signalled || sig != 15 {
		t.Errorf("the cause is %q by signal %d, want %q by 15", got, sig, causes.Signalled)
	}
}

// The next brain begins in the same state, unless it has to ask again.
func TestPhaseForTheNextBrain(t *testing.T) {
	for state := lifecycle.Running; state <= lifecycle.Emptied; state++ {
		own := state
		if state == lifecycle.Doubting {
			own = lifecycle.Running
		}
		if got := phase(state, false); got != own {
			t.Errorf("state %d becomes %d, want %d", state, got, own)
		}
		taken := state
		if state > lifecycle.Idle && state < lifecycle.Terminating {
			taken = lifecycle.Running
		}
		if got := phase(state, true); got != taken {
			t.Errorf("state %d of a gateway's server becomes %d, want %d", state, got, taken)
		}
	}
}

// The next brain has the end of the state alone from the page: other deadlines are no end of a grace.
func TestDeadlineOfTheState(t *testing.T) {
	start := time.Now()
	p := policy.Default()
	p.EOFGrace = -1
	p.IdleTimeout = time.Minute
	p.MaxLifetime = time.Hour
	l := lifecycle.New(p, gone{}, start, start)
	l.Handle(lifecycle.StdinClosed, start)
	on := &page.Page{}
	turn := turn{server: &Server{Config: protocol.NewConfig(), Page: on}, life: l}
	turn.writeState(start)
	if lifecycle.State(on.ByBrain.Phase) != lifecycle.InEOFGrace || on.ByBrain.PhaseEnds != 0 {
		t.Errorf("state %d ends at %d, want an endless EOF grace", on.ByBrain.Phase, on.ByBrain.PhaseEnds)
	}
}

// The wait for unread input and output begins with the hang-up of either end.
func TestUnreadUntilForTheNextBrain(t *testing.T) {
	for name, c := range map[string]struct {
		stdin, stdout int64
		from          int64
	}{
		"neither": {0, 0, 0},
		"stdin":   {5e9, 0, 5e9},
		"stdout":  {0, 6e9, 6e9},
		"both":    {9e9, 7e9, 7e9},
	} {
		p := &page.Page{}
		p.ByGuard.Happened[page.StdinClosed] = c.stdin
		p.ByGuard.Happened[page.StdoutClosed] = c.stdout
		want := fromMonotonic(c.from)
		if c.from != 0 {
			want = want.Add(policy.UnreadWait)
		}
		if got := unreadUntil(p); got.Sub(want).Abs() > time.Second { // of two readings of the clock
			t.Errorf("%s: until %v, want %v", name, got, want)
		}
	}
}

// After this time the guard replaces a brain that has changed nothing.
func TestReactsBy(t *testing.T) {
	now := time.Unix(100, 0)
	soon := now.Add(time.Second)
	s := &Server{Config: &protocol.Config{Facts: protocol.Facts{Policy: policy.Default()}}}
	grace := s.Config.Policy.TermGrace
	for _, c := range []struct {
		text     string
		state    lifecycle.State
		ends     time.Time // of the state
		deadline time.Time // of the brain
		want     time.Time
	}{
		{"waits for an event alone", lifecycle.Running, time.Time{}, time.Time{}, time.Time{}},
		{"looks at an idle server", lifecycle.Running, time.Time{}, soon, soon.Add(policy.KillWithin)},
		{"waits for a grace", lifecycle.InEOFGrace, soon, soon, soon.Add(policy.KillWithin)},
		{"checks in a term grace", lifecycle.Terminating, soon, now, soon.Add(policy.KillWithin)},
		{"checks in an endless one", lifecycle.Terminating, time.Time{}, now, time.Time{}},
		{"kills", lifecycle.Killing, time.Time{}, now, now.Add(5*policy.KillWithin + grace)},
	} {
		l := newLifecycle()
		l.Resume(lifecycle.Left{State: c.state, PhaseEnds: c.ends})
		turn := turn{server: s, life: l}
		if got := turn.reactsBy(c.deadline, now); !got.Equal(c.want) {
			t.Errorf("a brain that %s reacts by %v, want %v", c.text, got, c.want)
		}
	}
}

// The reader of a report does not wait for a brain that sweeps on. A watcher keeps the file for other servers.
func TestCloseReport(t *testing.T) {
	for _, taken := range []bool{false, true} {
		var ends [2]int
		if err := unix.Pipe2(ends[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
			t.Fatal(err)
		}
		s := &Server{Config: protocol.NewConfig()}
		s.Config.StartedByClient = taken
		s.Config.Report = ends[1]
		s.closeReport()
		n, err := unix.Read(ends[0], make([]byte, 1))
		hasEnded := n == 0 && err == nil
		if hasEnded == taken {
			t.Errorf("of a gateway: %t: the pipe has ended: %t (%v)", taken, hasEnded, err)
		}
		_ = unix.Close(ends[0])
		if taken {
			_ = unix.Close(ends[1])
		}
	}
}
