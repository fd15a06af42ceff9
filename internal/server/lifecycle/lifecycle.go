// SPDX-License-Identifier: Apache-2.0

// Package lifecycle decides when a server is stopped, and in which steps: a table of states and events. It
// starts no process, reads no clock and sends no signal. Its caller reports events with their time, and
// performs the actions.
package lifecycle

import (
	"cmp"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/causes"
	"github.com/mcpscope/mcpscope/internal/server/policy"
)

// The states, and the ways between them; table has the events:
//
//	Running ──────────▶ Doubting ─────────┐
//	 ▲   │                                │
//	 ▼   │                                ▼
//	Idle └─▶ Draining ◀─▶ InEOFGrace ─▶ Terminating ─▶ Killing ─▶ Emptied
//
// Every state before Terminating goes there by an event of beforeStop.

// State is where a server is between its start and its removal.
type State int

const (
	Running     State = iota
	Idle              // running, and frozen: every event thaws first, and comes to a server that runs
	Doubting          // the client is dead, and another process holds stdin open
	Draining          // the client has closed its end, and input or output is still unread
	InEOFGrace        // the EOF grace runs
	Terminating       // every member got a signal, and the term grace runs
	Killing           // the members are frozen and killed
	Emptied           // no member is left
	states
)

// Event is something that has happened to a server.
type Event int

const (
	StdinClosed Event = iota
	StdoutClosed
	ClientDied
	MainExited
	MemoryExhausted // and the main process is among those whom the kernel killed
	LauncherDied
	GuardDied // and the launcher before it
	BrainDied // reported by the next one
	StopRequested
	GroupEmptied
	MembersFrozen // since they are idle
	Woken         // by input, or for a moment
	signalReceived
	// The events that time brings. Of those that are due at the same time the first one here comes first.
	graceOver
	lifetimeOver
	idleChecked
	events
)

// A step reacts to an event; a cell of the table without one ignores it.
type step func(l *Lifecycle, e Event, now time.Time)

// beforeStop is part of the row of each state before Terminating. It comes before the rest of the row.
var beforeStop = [events]step{
	MainExited: (*Lifecycle).terminate, MemoryExhausted: (*Lifecycle).terminate,
	StopRequested: (*Lifecycle).terminate, signalReceived: (*Lifecycle).terminate,
	lifetimeOver: (*Lifecycle).terminate,
	LauncherDied: (*Lifecycle).kill, GuardDied: (*Lifecycle).kill,
}

var table = [states][events]step{
	Running: {
		StdinClosed: (*Lifecycle).beginDraining, StdoutClosed: (*Lifecycle).beginDraining,
		ClientDied: (*Lifecycle).doubt, idleChecked: (*Lifecycle).checkIdle,
		MembersFrozen: (*Lifecycle).becomeIdle,
	},
	Doubting: {
		StdinClosed: (*Lifecycle).beginLastGrace, StdoutClosed: (*Lifecycle).beginLastGrace,
		graceOver: (*Lifecycle).doubt,
	},
	Draining:   {ClientDied: (*Lifecycle).endEndless, graceOver: (*Lifecycle).drainOrBeginGrace},
	InEOFGrace: {ClientDied: (*Lifecycle).endEndless, graceOver: (*Lifecycle).endEOFGrace},
	Terminating: {
		signalReceived: (*Lifecycle).repeatSignal, graceOver: (*Lifecycle).kill,
		LauncherDied: (*Lifecycle).kill, GuardDied: (*Lifecycle).kill,
		BrainDied: (*Lifecycle).resumeStop, GroupEmptied: (*Lifecycle).finishStop,
	},
	Killing: {GroupEmptied: (*Lifecycle).finishStop, BrainDied: (*Lifecycle).kill},
}

// causeOf has the causes of the events that can be the first reason of a stop.
var causeOf = map[Event]causes.Cause{
	StdinClosed: causes.StdinClosed, StdoutClosed: causes.StdoutClosed,
	ClientDied: causes.ClientDied, LauncherDied: causes.LauncherGone, GuardDied: causes.GuardGone,
	MainExited: causes.MainExited, MemoryExhausted: causes.MemoryExhausted,
	StopRequested: causes.StopRequested, signalReceived: causes.Signalled,
	lifetimeOver: causes.LifetimeOver, idleChecked: causes.IdleTooLong,
}

// Facts answers what no event reports.
type Facts interface {
	Unread() bool                // the server has not read all input
	Blocked() bool               // the server can't write before the client has read
	HungUp() bool                // nobody can write to stdin any more
	Abandoned() bool             // no process outside the payload can write to stdin any more
	CPU() (time.Duration, error) // that the members have used
	Traffic() Traffic
}

// Traffic counts the bytes that the members have read and written, of files too. The counts of a member go
// with it. So they are comparable only while Members, which depends on all of them, is the same.
type Traffic struct {
	Read, Written int64
	Members       uint64
}

// message is in bytes: no message of MCP is shorter.
const message = 32

// IdleProgress is how far the check of an idle timeout has come.
type IdleProgress struct {
	NextCheck time.Time
	CPU       time.Duration
	Traffic   Traffic
	CallSince time.Time // when the server had read a message, and has written none since; zero for never
}

// callMost is how long a server may be in a call: a notification has no answer, and a start reads files.
const callMost = time.Hour

// Action is a task for the caller.
type Action struct {
	Do     Verb
	Signal unix.Signal // of SendSignal
}

// Verb is the kind of an Action.
type Verb int

const (
	SendSignal  Verb = iota // to every member, and SIGCONT after it
	ThawMembers             // that were frozen by the guard for the next brain
	ThawStopped             // members that a person has frozen; those that run get no signal
	KillMembers             // and report GroupEmptied
	WakeMembers             // that are idle
)

// Lifecycle is the state machine that decides when and how one server is stopped.
type Lifecycle struct {
	State  State
	Cause  causes.Cause
	Signal unix.Signal // of the cause signalled
	// Reclaimed: the server has to read its memory back before it can react, so graces that begin at a thaw
	// are longer.
	Reclaimed bool

	policy      policy.Policy
	facts       Facts
	due         [events]time.Time // of the events that time brings; zero for never
	unreadUntil time.Time         // the most that unread input or output delays the EOF grace
	cpu         time.Duration     // at the last check
	traffic     Traffic           // the same
	callSince   time.Time         // IdleProgress.CallSince
	clientDead  bool
	wasAsked    bool      // a brain before has sent the members the signal of a stop
	slowUntil   time.Time // until then the server reads its memory back
	receivedAt  map[unix.Signal]time.Time
	present     unix.Signal // of the event that is handled
	actions     []Action
}

// New is the lifecycle of a server.
func New(p policy.Policy, facts Facts, started, now time.Time) *Lifecycle {
	l := &Lifecycle{policy: p, facts: facts, receivedAt: map[unix.Signal]time.Time{}}
	if p.MaxLifetime > 0 {
		l.due[lifetimeOver] = started.Add(p.MaxLifetime)
	}
	if p.IdleTimeout > 0 {
		l.due[idleChecked] = now.Add(p.IdleTimeout)
	}
	return l
}

// Left is where another process has stopped to decide about a server.
type Left struct {
	State       State
	PhaseEnds   time.Time // end of the state, the zero time for never
	UnreadUntil time.Time // until then the end of the server may wait for its input and output
	Cause       causes.Cause
	Signal      unix.Signal // of the cause signalled
	SignalSent  bool        // the members have got the signal of a stop
	Reclaimed   bool        // Lifecycle.Reclaimed
}

// Resume continues there.
func (l *Lifecycle) Resume(from Left) {
	l.State = min(max(from.State, Running), Emptied)
	if l.State >= Terminating {
		clear(l.due[:])
	}
	l.due[graceOver] = from.PhaseEnds
	l.unreadUntil = from.UnreadUntil
	l.Cause = from.Cause
	l.Signal = from.Signal
	l.Reclaimed = from.Reclaimed
	l.wasAsked = from.SignalSent
	if l.Signal != 0 {
		l.receivedAt[l.Signal] = time.Time{} // long ago: the next one is a repeat
	}
}

// IdleProgress returns how far the check of an idle timeout has come, for ResumeIdle in the next process.
func (l *Lifecycle) IdleProgress() IdleProgress {
	return IdleProgress{l.due[idleChecked], l.cpu, l.traffic, l.callSince}
}

// ResumeIdle continues the checks of an idle timeout.
func (l *Lifecycle) ResumeIdle(from IdleProgress) {
	l.due[idleChecked] = from.NextCheck
	l.cpu = from.CPU
	l.traffic = from.Traffic
	l.callSince = from.CallSince
}

// Handle reacts to an event, and returns the actions to perform, in their order.
func (l *Lifecycle) Handle(e Event, now time.Time) []Action {
	l.actions = nil
	if e == ClientDied {
		l.clientDead = true
		if l.policy.OnClientDeath == policy.IgnoreClientDeath {
			return nil
		}
	}
	if l.State == Idle {
		l.wake(now)
	}
	if react := reaction(l.State, e); react != nil {
		react(l, e, now)
	}
	return l.actions
}

func reaction(in State, e Event) step {
	if in < Terminating && beforeStop[e] != nil {
		return beforeStop[e]
	}
	return table[in][e]
}

// HandleSignal reacts to a signal by which a client stops a server.
func (l *Lifecycle) HandleSignal(sig unix.Signal, now time.Time) []Action {
	l.present = sig
	return l.Handle(signalReceived, now)
}

// HandleTime reacts to deadlines that have passed.
func (l *Lifecycle) HandleTime(now time.Time) (all []Action) {
	for e := range l.due {
		if due := l.due[e]; !due.IsZero() && !now.Before(due) {
			l.due[e] = time.Time{}
			all = append(all, l.Handle(Event(e), now)...)
		}
	}
	return all
}

// Due is when HandleTime has to be called next, the zero time for never.
func (l *Lifecycle) Due() (first time.Time) {
	for _, due := range l.due {
		if !due.IsZero() && (first.IsZero() || due.Before(first)) {
			first = due
		}
	}
	return first
}

// PhaseEnds is the end of the present state, the zero time for never. Other deadlines may come first.
func (l *Lifecycle) PhaseEnds() time.Time { return l.due[graceOver] }

// enter begins a state, which lasts for d; a negative d is for ever. A stop has no other deadline.
func (l *Lifecycle) enter(s State, now time.Time, d time.Duration) {
	l.State = s
	if s >= Terminating {
		clear(l.due[:])
	}
	l.due[graceOver] = time.Time{}
	if d >= 0 {
		l.due[graceOver] = now.Add(d)
	}
}

// becomeIdle enters the state of a server whose members are frozen.
func (l *Lifecycle) becomeIdle(_ Event, now time.Time) { l.enter(Idle, now, -1) }

func (l *Lifecycle) wake(now time.Time) {
	l.enter(Running, now, -1)
	if l.Reclaimed {
		l.slowUntil = now.Add(policy.ReclaimedWithin)
	}
	l.do(WakeMembers)
}

// grace is longer for a server that reads its memory back.
func (l *Lifecycle) grace(d time.Duration, now time.Time) time.Duration {
	if d < 0 {
		return d
	}
	return d + max(l.slowUntil.Sub(now), 0)
}

func (l *Lifecycle) do(v Verb) { l.actions = append(l.actions, Action{Do: v}) }

func (l *Lifecycle) because(why causes.Cause) { l.Cause = cmp.Or(l.Cause, why) }

func (l *Lifecycle) beginDraining(e Event, now time.Time) {
	l.because(causeOf[e])
	l.do(ThawStopped) // they get the grace to end
	l.unreadUntil = now.Add(policy.UnreadWait)
	l.drainOrBeginGrace(e, now)
}

// drainOrBeginGrace begins the EOF grace when the server has read its input, and a client that lives has read
// enough for the server to continue. No event reports an emptied pipe, so this repeats, for a bounded time.
func (l *Lifecycle) drainOrBeginGrace(_ Event, now time.Time) {
	if l.policy.EOFGrace >= 0 && now.Before(l.unreadUntil) && (l.facts.Unread() || l.blocked()) {
		l.enter(Draining, now, policy.UnreadEvery)
		return
	}
	l.enter(InEOFGrace, now, l.grace(l.policy.EOFGrace, now))
}

func (l *Lifecycle) blocked() bool { return !l.clientDead && l.facts.Blocked() }

func (l *Lifecycle) endEOFGrace(e Event, now time.Time) {
	if now.Before(l.unreadUntil) && l.blocked() {
		l.enter(Draining, now, policy.UnreadEvery)
		return
	}
	l.terminate(e, now)
}

// doubt stops a server without a client that has done nothing for a window, or whose stdin only its own
// members hold.
func (l *Lifecycle) doubt(e Event, now time.Time) {
	switch {
	case l.facts.HungUp():
		l.beginLastGrace(e, now)
		return
	case l.facts.Abandoned():
		l.loseClient(e, now)
		return
	}
	hasWorked := l.worked()
	isFirstWindow := e == ClientDied // before it nothing was measured
	if isFirstWindow || hasWorked {
		l.enter(Doubting, now, policy.IdleWindow)
		return
	}
	l.because(causes.ClientIdle)
	l.terminate(e, now)
}

// beginLastGrace is for a client that has died: it leaves as much time to flush as one that closes its end.
func (l *Lifecycle) beginLastGrace(e Event, now time.Time) {
	l.because(causes.ClientDied)
	if l.policy.EOFGrace < 0 {
		l.terminate(e, now)
		return
	}
	l.beginDraining(e, now)
}

// endEndless: a grace without an end ends with the client.
func (l *Lifecycle) endEndless(e Event, now time.Time) {
	if l.policy.EOFGrace < 0 {
		l.loseClient(e, now)
	}
}

// loseClient does not wait for unread input: no process is left to read the answer.
func (l *Lifecycle) loseClient(e Event, now time.Time) {
	l.because(causes.ClientDied)
	l.terminate(e, now)
}

// worked reports whether the server has done something since the last check. It has, if that is unknown.
func (l *Lifecycle) worked() bool {
	cpu, err := l.facts.CPU()
	if err != nil {
		return true
	}
	used := cpu - l.cpu
	l.cpu = cpu
	return used >= policy.IdleCPU
}

// checkIdle: a call may take long, and need no processor. So a message that was read is use, and for as long
// as nothing is written after it the server is in a call. A member that has ended may have read one, or hide
// that by its own bytes. Of messages that were read between the same two checks the last one may be
// unanswered: that is not seen.
func (l *Lifecycle) checkIdle(e Event, now time.Time) {
	before := l.traffic
	l.traffic = l.facts.Traffic()
	hasRead := l.traffic.Read-before.Read >= message || l.traffic.Members != before.Members
	hasWritten := l.traffic.Written-before.Written >= message
	switch {
	case hasWritten:
		l.callSince = time.Time{}
	case hasRead:
		l.callSince = now
	}
	isInCall := !l.callSince.IsZero() && now.Sub(l.callSince) < callMost
	if l.worked() || l.facts.Unread() || hasRead || isInCall {
		l.due[idleChecked] = now.Add(l.policy.IdleTimeout)
		return
	}
	l.terminate(e, now)
}

func (l *Lifecycle) terminate(e Event, now time.Time) {
	sig := unix.SIGTERM
	if e == signalReceived {
		sig = l.present
		l.receivedAt[sig] = now
		if l.Cause == "" {
			l.Signal = sig
		}
	}
	l.because(causeOf[e])
	l.enter(Terminating, now, l.grace(l.policy.TermGrace, now))
	l.actions = append(l.actions, Action{SendSignal, sig})
}

// repeatSignal skips the grace at a repeat of the same signal. One that comes at once is the same: systemd
// sends SIGTERM twice at times.
func (l *Lifecycle) repeatSignal(e Event, now time.Time) {
	first, again := l.receivedAt[l.present]
	switch {
	case !again:
		l.receivedAt[l.present] = now
	case now.Sub(first) >= policy.RepeatAfter:
		l.kill(e, now)
	}
}

func (l *Lifecycle) kill(e Event, now time.Time) {
	l.because(causeOf[e])
	l.enter(Killing, now, -1)
	l.do(KillMembers)
}

// resumeStop goes on with a grace. The brain before may have died before it sent the signal.
func (l *Lifecycle) resumeStop(Event, time.Time) {
	if l.wasAsked {
		l.do(ThawMembers)
		return
	}
	l.wasAsked = true
	l.actions = append(l.actions, Action{SendSignal, cmp.Or(l.Signal, unix.SIGTERM)})
}

func (l *Lifecycle) finishStop(_ Event, now time.Time) { l.enter(Emptied, now, -1) }
