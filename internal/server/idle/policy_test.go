// SPDX-License-Identifier: Apache-2.0

package idle

import (
	"errors"
	"testing"
	"time"
)

// A server in virtual time. It uses what a test says.
type server struct {
	*Policy
	t0, now  time.Time
	used     Usage
	err      error
	pending  string
	obstacle string
	measured func()          // just after its use was
	person   string          // freezes or thaws the members, "" for neither
	meets    func()          // between the freeze and the second look
	freezes  []time.Duration // when
	undone   int
	breaths  int
}

// What a person does to a server.
const (
	freezes = "freezes"
	thaws   = "thaws"
)

func (s *server) at() time.Duration { return s.now.Sub(s.t0) }
func (s *server) wake()             { s.Thawed(s.now, false) }
func (s *server) uses(u Usage) {
	s.used.CPU += u.CPU
	s.used.Read += u.Read
	s.used.Written += u.Written
	s.used.Active = u.Active
}
func (s *server) Usage() (Usage, error) {
	defer func(then func()) {
		s.measured = nil
		if then != nil {
			then()
		}
	}(s.measured)
	return s.used, s.err
}
func (s *server) Now() time.Time        { return s.now }
func (s *server) Pending() string       { return s.pending }
func (s *server) Obstacle(Usage) string { return s.obstacle }
func (s *server) Thaw()                 { s.undone++ }
func (s *server) Frozen() bool          { return s.frozen && s.person != thaws || s.person == freezes }
func (s *server) Reclaim() bool         { return false }
func (s *server) Freeze() bool {
	if s.meets != nil {
		s.meets()
	}
	return true
}

func start(after time.Duration) *server {
	s := &server{t0: time.Unix(0, 0)}
	s.now = s.t0
	s.Policy = New(after, s.now)
	return s
}

// until lets time pass; each is called at each moment that something happens, before the policy decides.
func (s *server) until(end time.Duration, each func()) {
	for s.Due.Sub(s.t0) <= end {
		if s.Due.Before(s.now) {
			panic("no time passes")
		}
		s.now = s.Due
		if each != nil {
			each()
		}
		switch s.Look(s) {
		case Frozen:
			s.freezes = append(s.freezes, s.at())
		case Wake:
			s.breaths++
			s.Thawed(s.now, false)
		}
	}
	s.now = s.t0.Add(end)
}

func (s *server) freezesFirst(t *testing.T, want time.Duration) {
	t.Helper()
	if len(s.freezes) == 0 || s.freezes[0] != want {
		t.Errorf("frozen at %v, want first at %v", s.freezes, want)
	}
}

func (s *server) neverFreezes(t *testing.T) {
	t.Helper()
	if len(s.freezes) > 0 {
		t.Errorf("frozen at %v", s.freezes)
	}
}

const d = 10 * time.Minute

// each minute, before the policy decides, a server uses so much
func TestWhenAServerIsIdle(t *testing.T) {
	for name, c := range map[string]struct {
		each Usage
		idle bool
	}{
		"nothing":            {Usage{}, true},
		"timers":             {Usage{CPU: 50 * time.Millisecond}, true},
		"a browser":          {Usage{CPU: 200 * time.Millisecond}, false},
		"writes":             {Usage{Written: 5000}, true},
		"reads all the time": {Usage{Read: 1}, false},
		"waits for a CPU":    {Usage{Active: true}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(d)
			s.until(2*d, func() { s.uses(c.each) })
			if !c.idle {
				s.neverFreezes(t)
				return
			}
			s.freezesFirst(t, d)
		})
	}
}

// The CPU time of the start counts until it is older than D.
func TestStartIsUse(t *testing.T) {
	s := start(d)
	s.until(time.Minute, func() { s.used.CPU = 3 * time.Second * time.Duration(s.at()/time.Minute) })
	s.until(2*d, nil)
	s.freezesFirst(t, d+time.Minute)
}

// A server whose client pings it is frozen between two pings. One that is called may wait, for a timer or a
// person.
func TestSilenceBetweenPings(t *testing.T) {
	each := func(used Usage) *server {
		s := start(d)
		s.until(2*d, func() {
			if s.at()%time.Minute == 0 {
				s.uses(used)
			}
		})
		return s
	}
	each(Usage{Read: 61, Written: 37}).freezesFirst(t, d+silentFor)
	each(Usage{Read: 87}).neverFreezes(t)
}

// A ping that comes at the end of a breath may be unanswered when that is over.
func TestPingInABreath(t *testing.T) {
	s := start(d)
	s.until(d+breathEach, nil)
	s.uses(Usage{Read: 61})
	s.until(d+breathEach+silentFor, nil)
	if s.breaths != 1 || len(s.freezes) != 1 {
		t.Errorf("frozen at %v, after %d breaths", s.freezes, s.breaths)
	}
}

// Between two looks a server waited for a processor. Now it waits for a timer, before it answers.
func TestLateLook(t *testing.T) {
	s := start(40 * time.Millisecond)
	s.uses(Usage{Read: 13, Active: true})
	s.lookAt(20 * time.Millisecond)
	s.uses(Usage{})
	if s.lookAt(120*time.Millisecond) != None || s.lookAt(200*time.Millisecond) != Frozen {
		t.Error("frozen too early or too late")
	}
}

// A look can wait for a processor, too: what it has seen may be as new as its end.
func TestSlowLook(t *testing.T) {
	s := start(40 * time.Millisecond)
	s.uses(Usage{Read: 13})
	s.measured = func() { s.now = s.t0.Add(100 * time.Millisecond) }
	s.lookAt(20 * time.Millisecond)
	if s.lookAt(110*time.Millisecond) != None || s.lookAt(150*time.Millisecond) != Frozen {
		t.Error("frozen too early or too late")
	}
}

func (s *server) lookAt(at time.Duration) Act {
	s.now = s.t0.Add(at)
	return s.Look(s)
}

func TestShortTimes(t *testing.T) {
	s := start(50 * time.Millisecond)
	s.used.CPU = 30 * time.Millisecond
	s.until(time.Second, nil)
	s.freezesFirst(t, 50*time.Millisecond)
}

func TestObstacles(t *testing.T) {
	for name, c := range map[string]struct {
		set, clear func(*server)
		note       string
	}{
		"full output": {func(s *server) { s.pending = "it writes" }, func(s *server) { s.pending = "" }, "not idle: it writes"},
		"an obstacle": {func(s *server) { s.obstacle = "it listens" }, func(s *server) { s.obstacle = "" }, "not idle: it listens"},
		"no figures":  {func(s *server) { s.err = errors.New("EACCES") }, func(s *server) { s.err = nil }, "not idle: its processes can't be examined"},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(d)
			c.set(s)
			s.until(d+time.Minute, nil)
			if s.err == nil && s.Note != "" {
				t.Errorf("note %q after two refusals", s.Note)
			}
			s.until(2*d, nil)
			s.neverFreezes(t)
			if s.Note != c.note {
				t.Errorf("note %q, want %q", s.Note, c.note)
			}
			c.clear(s)
			s.until(4*d, nil)
			if len(s.freezes) == 0 {
				t.Error("never frozen when the obstacle was gone")
			}
			if s.frozen && s.Note != "" {
				t.Errorf("note %q of a frozen server", s.Note)
			}
		})
	}
}

// The second look notices all that happens between the first one and the freeze.
func TestSecondLook(t *testing.T) {
	for name, meets := range map[string]func(*server){
		"a message came":         func(s *server) { s.pending = "unread" },
		"a lock was taken":       func(s *server) { s.obstacle = "it holds a lock" },
		"a message was read":     func(s *server) { s.used.Read += 61 },
		"a member ended":         func(s *server) { s.used.Read -= 100 },
		"they can't be examined": func(s *server) { s.err = errors.New("EACCES") },
	} {
		t.Run(name, func(t *testing.T) {
			s := start(d)
			s.meets = func() { meets(s) }
			s.until(d, nil)
			s.neverFreezes(t)
			if s.undone != 1 {
				t.Errorf("undone %d times", s.undone)
			}
			s.meets = nil
			s.pending = ""
			s.obstacle = ""
			s.err = nil
			s.until(2*d, nil)
			if len(s.freezes) == 0 {
				t.Error("never frozen afterwards")
			}
		})
	}
}

func TestBreath(t *testing.T) {
	for name, c := range map[string]struct {
		used Usage
		idle bool
	}{
		"nothing":             {Usage{}, true},
		"pages were read":     {Usage{CPU: 8 * time.Millisecond}, true},
		"an event of its own": {Usage{Written: 8, Read: 8}, true},
		"work":                {Usage{CPU: 21 * time.Millisecond}, false},
		"an answer":           {Usage{Written: 37}, false},
		"a member ended":      {Usage{Written: -100}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(d)
			s.until(d, nil)
			s.until(d+breathEach, nil)
			s.uses(c.used)
			s.until(d+breathEach+breathFor, nil)
			if s.breaths != 1 || s.frozen != c.idle || s.Used == c.idle {
				t.Errorf("%d breaths, frozen: %v, reclaim: %v", s.breaths, s.frozen, s.Used)
			}
			s.until(2*d+breathEach+breathFor, nil)
			if !s.frozen && s.breaths == 1 {
				t.Error("never frozen again")
			}
		})
	}
}

// What a person has thawed stays awake for D: it is not frozen by the next look that finds it idle.
func TestThawByAPerson(t *testing.T) {
	for name, frozenBefore := range map[string]string{"an idle server": "", "one that a person has frozen": freezes} {
		t.Run(name, func(t *testing.T) {
			s := start(d)
			s.person = frozenBefore
			s.until(2*d, nil)
			s.freezes = nil
			s.person = thaws
			s.until(2*d+time.Minute, nil)
			s.person = ""
			s.until(3*d-1, nil)
			s.neverFreezes(t)
			s.until(4*d, nil)
			if len(s.freezes) == 0 {
				t.Error("never frozen again")
			}
		})
	}
}

// A ping costs a second, and no second reclaim; a call, or one without an answer yet, D.
func TestWake(t *testing.T) {
	for name, c := range map[string]struct {
		used Usage
		idle bool
	}{
		"a ping":             {Usage{CPU: 40 * time.Millisecond, Read: 61, Written: 37}, true},
		"a call":             {Usage{Read: 200, Written: 4000}, false},
		"one in flight":      {Usage{Read: 100}, false},
		"one that is short":  {Usage{Read: 68, Written: 300}, false},
		"one that is logged": {Usage{Read: 87, Written: 72}, false},
		"no message":         {Usage{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(d)
			s.until(d, nil)
			s.until(d+20*time.Second, nil)
			s.wake()
			s.uses(c.used)
			s.until(d+21*time.Second, nil)
			if s.frozen != c.idle || s.Used == c.idle {
				t.Errorf("frozen: %v, reclaim: %v", s.frozen, s.Used)
			}
			s.until(d+21*time.Second+d-1, nil)
			if !c.idle && s.frozen {
				t.Error("frozen again before D was over")
			}
			s.until(d+21*time.Second+d, nil)
			if !s.frozen && s.breaths == 0 {
				t.Error("never frozen again")
			}
		})
	}
}

// A server that was thawed for input, and has read it without a read that counts, is not frozen again.
func TestUncountedInput(t *testing.T) {
	for _, read := range []int64{0, 5} {
		s := start(d)
		s.until(d, nil)
		s.freezesFirst(t, d)
		s.Thawed(s.now, true)
		s.uses(Usage{Read: read})
		s.until(5*d, nil)
		again := len(s.freezes) > 1
		if again == (read == 0) || again == (s.Note != "") {
			t.Errorf("%d bytes read: frozen at %v; note %q", read, s.freezes, s.Note)
		}
	}
}

// A busy machine has a server read its input while a look measures its use, or has it wait for a processor between the read and
// its count.
func TestInputThatIsCountedLate(t *testing.T) {
	for name, begin := range map[string]func(*server){
		"it reads after its use was measured": func(s *server) {
			s.pending = "it does not read its input"
			s.measured = func() {
				s.pending = ""
				s.uses(Usage{Read: 5})
			}
		},
		"it has read, and is not counted yet": func(s *server) {
			s.uses(Usage{Active: true})
			s.measured = func() { s.uses(Usage{Read: 5}) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(d)
			s.until(d, nil)
			s.Thawed(s.now, true)
			begin(s)
			s.until(5*d, nil)
			if len(s.freezes) < 2 || s.Note != "" {
				t.Errorf("frozen at %v; note %q", s.freezes, s.Note)
			}
		})
	}
}
