// SPDX-License-Identifier: Apache-2.0

// Package decide decides when a server is stopped, and in which steps. It starts no process, reads no clock
// and sends no signal: its caller has the facts, and performs the action. It needs no Go runtime.
//
// Facts are levels: they are read afresh each time, and a process that goes on for another one reads the
// same. The table has the event, and what follows in each phase. Whatever the phase: a server of which
// nothing is left after its main process, or after its launcher, is removed, and the death of the launcher is
// a kill.
//
//	             hung up  abandoned  signal   main ended  requested  due
//	Running      Grace    ask        Leaving  Leaving     ask
//	Grace                 1)         Leaving  Leaving     ask        ask; again, while something is unread
//	Leaving                                                          ask
//	Terminating                      2)                              kill
//	Killing                                                          kill
//
// Leaving lasts 25 ms after a signal, which the main process has got, and 3 ms after the end of that.
//
// 1) A client that dies leaves as much time as one that closes its end. An endless grace ends: ask.
//
// 2) A repeat of the same signal: kill.
//
// Where containers have to go first, each kill waits for that. Where members may be kept, an ask waits until
// they are out of the group, but for two seconds at most. It waits for a second at most where somebody looks
// whether others use a member. The phase lasts meanwhile. No kill that is due waits for either.
package decide

// Phase is how far the end of a server has come.
type Phase uint32

// The phases, in their order.
const (
	Running     Phase = iota
	Grace             // the client has closed stdin or stdout: time to answer and exit
	Leaving           // the main process has ended, or got a signal: a moment for the others
	Terminating       // all members have got the signal of the stop
	Killing
	Gone
)

// State is what the caller keeps between two steps, for a process that goes on for it, too. The zero value is
// that of a server that runs.
type State struct {
	Phase    Phase
	Deadline int64 // when Step has to be called next without an event, or 0
	graceAt  int64 // from when the EOF grace counts
	killedAt int64 // when the kill has begun
	isStuck  bool  // see IsStuck
	askAt    int64 // when the members were to be asked first, or 0
}

// Times are those of a server, in nanoseconds. A negative grace is endless.
type Times struct{ EOFGrace, TermGrace int64 }

// Facts are what the caller sees. Times are nanoseconds of one clock.
type Facts struct {
	Now          int64
	HungUpAt     int64 // when the client has closed stdin or stdout, or 0
	Unread       bool  // the server has not read all input, or a client that lives not all output
	Abandoned    bool  // the client is dead, and nobody else can write to stdin
	LauncherDead bool
	MainEnded    bool
	Empty        bool // no member is left, in the group or outside
	Requested    bool // by mcpscope stop, or a manager
	Signalled    bool // the launcher has got a signal that ends a server, and the main process has it
	Repeated     bool // once more
	// Sleeps: a member has been in uninterruptible sleep for long, where SIGKILL has to wait, or may not be
	// signalled. It is looked for only when the kill has lasted for LooksAfter.
	Sleeps bool
	// Containers have to be removed before the members are killed: the engine needs those.
	Containers bool
	Keeps      bool // members that a pattern keeps may still be in the group
	SeeksUse   bool // it is not known yet which members others use
	// SlowUntil: the server reads its memory back until then, so graces that begin before are longer.
	SlowUntil int64
}

// Action is what the caller has to do.
type Action uint32

// The actions. After Thaw and Ask, Step is called again at once; after Kill, when the caller has looked for
// events: a kill may take longer than the time between two.
const (
	Wait          Action = iota // for an event, or the deadline
	Thaw                        // members that are frozen or stopped, so that they can end
	Prepare                     // for Ask, or wait for that: Facts.Keeps, Facts.SeeksUse
	Ask                         // thaw, and send the signal of the stop to all members
	EndContainers               // begin that, or wait for it: Facts.Containers
	Kill                        // all members
	Remove                      // the group: nothing is left
)

// Times that no setting changes, in nanoseconds.
const (
	afterMain   = 3e6
	afterSignal = 25e6
	unreadMost  = 10e9 // so long unread input or output delays the EOF grace
	unreadEach  = 100e6
	killEach    = 5e6
	keepMost    = 2e9 // a member that is not kept by then is asked as all others
	seekMost    = 1e9 // it takes some 20 ms, and more on a busy machine
	killMost    = 4e9
	// killMostBusy is for a kill without a reason to last: a killed process ends when a processor runs it.
	killMostBusy = 60e9
)

// LooksAfter is how long a kill lasts, in nanoseconds, before somebody looks why.
const LooksAfter = 2e9

// Step makes the next step.
func Step(s *State, f *Facts, t *Times) Action {
	isDue := s.Deadline != 0 && f.Now >= s.Deadline
	isKilling := s.Phase == Killing
	switch {
	case s.Phase == Gone, isKilling && !isDue && !f.Empty:
		return Wait
	case f.Empty && (f.MainEnded || f.LauncherDead):
		s.enter(Gone, 0)
		return Remove
	case isKilling, f.LauncherDead, s.Phase == Terminating && (isDue || f.Repeated):
		return s.kill(f)
	case s.Phase == Terminating:
		return Wait
	case s.Phase == Leaving && isDue:
		return s.ask(f, t)
	case s.Phase == Leaving:
		return Wait
	case f.MainEnded:
		s.enter(Leaving, f.Now+afterMain)
		return Thaw
	case f.Signalled:
		s.enter(Leaving, f.Now+afterSignal)
		return Thaw
	case f.Requested, f.Abandoned && (f.HungUpAt == 0 || t.EOFGrace < 0):
		return s.ask(f, t)
	case f.HungUpAt == 0:
		return Wait
	case s.Phase == Running:
		s.graceAt = f.HungUpAt
		s.enter(Grace, f.Now)
		return Thaw
	}
	return s.stayInGrace(f, t)
}

// KillingFor is how long ago the kill has begun, in nanoseconds, or 0.
func (s *State) KillingFor(now int64) int64 {
	if s.Phase != Killing {
		return 0
	}
	return now - s.killedAt
}

// IsStuck reports whether a member is left that SIGKILL does not end: it is in uninterruptible sleep, or may
// not be signalled. On a busy machine, or among a thousand servers that end at once, a kill may last as well.
func (s *State) IsStuck() bool { return s.isStuck }

// stayInGrace begins the EOF grace again while something is unread. No event reports an emptied pipe.
func (s *State) stayInGrace(f *Facts, t *Times) Action {
	if t.EOFGrace < 0 {
		s.Deadline = 0
		return Wait
	}
	mayBeUnread := f.Now < f.HungUpAt+unreadMost
	if f.Unread && mayBeUnread {
		s.graceAt = f.Now
	}
	over := s.graceAt + t.EOFGrace + max(f.SlowUntil-s.graceAt, 0)
	if f.Now >= over {
		return s.ask(f, t)
	}
	s.Deadline = over
	if mayBeUnread {
		s.Deadline = min(over, f.Now+unreadEach)
	}
	return Wait
}

func (s *State) enter(p Phase, deadline int64) {
	s.Phase = p
	s.Deadline = deadline
}

func (s *State) ask(f *Facts, t *Times) Action {
	if s.askAt == 0 {
		s.askAt = f.Now
	}
	waits := f.Now - s.askAt
	if f.Keeps && waits < keepMost || f.SeeksUse && waits < seekMost {
		s.Deadline = f.Now + killEach
		return Prepare
	}
	s.enter(Terminating, 0)
	if t.TermGrace >= 0 {
		s.Deadline = f.Now + t.TermGrace + max(f.SlowUntil-f.Now, 0)
	}
	return Ask
}

func (s *State) kill(f *Facts) Action {
	if f.Containers {
		s.Deadline = f.Now + killEach
		return EndContainers
	}
	if s.Phase != Killing {
		s.killedAt = f.Now
	}
	lasts := f.Now - s.killedAt
	s.isStuck = lasts >= killMost && f.Sleeps || lasts >= killMostBusy
	s.enter(Killing, f.Now+killEach)
	return Kill
}

// Earlier is the earlier one of two times, where 0 stands for never.
func Earlier(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
