// SPDX-License-Identifier: Apache-2.0

//go:build linux

package lifecycle

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

//	          clientDied             idle, or stdinClosed
//	Running ──────────────▶ Doubting ────────────────────┐
//	 │   ▲                                                │
//	 │   │ reopened                                       │
//	 │   └───────────┐                                    │
//	 │ Running ◀──▶ Idle: membersFrozen, and any other event
//	 ▼ stdinClosed   │   EOF grace over                   ▼
//	Draining ◀──▶ Finishing ────────────────────▶ Terminating ─────▶ Killing ───▶ Emptied
//	                                                  │     term grace over         ▲
//	any state on the left, by a signal, mainExited,   └─────────────────────────────┘
//	stopRequested, launcherDied: Terminating                     emptied
//	guardDied: Killing

// State is where a server is between its start and its removal.
type State int

const (
	Running     State = iota
	Idle              // running, and frozen: every event thaws first, and comes to a server that runs
	Doubting          // the client is dead, and another process holds stdin open
	Draining          // the client has closed its end, and input or output is still unread
	Finishing         // the EOF grace runs
	Terminating       // every member got a signal, and the term grace runs
	Killing           // the members are frozen and killed
	Emptied           // no member is left
	states
)

// Event is something that has happened.
type Event int

const (
	StdinClosed Event = iota
	StdoutClosed
	ClientDied
	MainExited
	MemoryExhausted // and the main process is among those whom the kernel killed
	LauncherDied    // reported by the next brain
	GuardDied
	StopRequested
	GroupEmptied
	MembersFrozen // since they are idle
	Woken         // by input, or for a moment
	signalReceived
	graceOver
	lifetimeOver
	idleChecked
	events
)

// A step reacts to an event; a cell of the table without one ignores it.
type step func(l *Lifecycle, e Event, now time.Time)

// ending are the events that stop a server in each state before Terminating.
var ending = [events]step{
	MainExited: (*Lifecycle).terminate, MemoryExhausted: (*Lifecycle).terminate,
	LauncherDied: (*Lifecycle).terminate, StopRequested: (*Lifecycle).terminate,
	signalReceived: (*Lifecycle).terminate, lifetimeOver: (*Lifecycle).terminate,
	GuardDied: (*Lifecycle).kill,
}

var table = [states][events]step{
	Running: with(ending, [events]step{
		StdinClosed: (*Lifecycle).beginDraining, StdoutClosed: (*Lifecycle).beginDraining,
		ClientDied: (*Lifecycle).beginDoubting, idleChecked: (*Lifecycle).checkIdle,
		MembersFrozen: (*Lifecycle).rest}),
	Idle: {},
	Doubting: with(ending, [events]step{
		StdinClosed: (*Lifecycle).loseClient, StdoutClosed: (*Lifecycle).loseClient,
		graceOver: (*Lifecycle).doubt}),
	Draining: with(ending, [events]step{
		ClientDied: (*Lifecycle).loseClient, graceOver: (*Lifecycle).drain}),
	Finishing: with(ending, [events]step{
		ClientDied: (*Lifecycle).loseClient, graceOver: (*Lifecycle).finish}),
	Terminating: {
		signalReceived: (*Lifecycle).repeatSignal, graceOver: (*Lifecycle).kill, GuardDied: (*Lifecycle).kill,
		LauncherDied: (*Lifecycle).thaw, GroupEmptied: (*Lifecycle).finishStop,
	},
	Killing: {GroupEmptied: (*Lifecycle).finishStop, LauncherDied: (*Lifecycle).kill},
	Emptied: {},
}

// with adds cells to a row.
func with(row, more [events]step) [events]step {
	for e, s := range more {
		if s != nil {
			row[e] = s
		}
	}
	return row
}

// causes of the events that can be the first reason of a stop.
var causes = map[Event]protocol.Cause{
	StdinClosed: protocol.StdinClosed, StdoutClosed: protocol.StdoutClosed,
	ClientDied: protocol.ClientDied, LauncherDied: protocol.LauncherGone, GuardDied: protocol.GuardGone,
	MainExited: protocol.MainExited, MemoryExhausted: protocol.MemoryExhausted,
	StopRequested: protocol.StopRequested, signalReceived: protocol.Signalled,
	lifetimeOver: protocol.LifetimeOver,
}

// Facts answers what no event reports.
type Facts interface {
	// Unread: the server has not read all input.
	Unread() bool
	// Blocked: the server can't write before the client has read.
	Blocked() bool
	// Abandoned: no process outside the payload can write to stdin any more.
	Abandoned() bool
	// Open: the client's ends of stdin and stdout are open. A FIFO can be opened again after a hang-up.
	Open() bool
	// CPU is the time that the members have used.
	CPU() time.Duration
}

// Action is a task for the caller.
type Action struct {
	Do     Verb
	Signal unix.Signal // of SendSignal
}

// Verb says which action.
type Verb int

const (
	SendSignal  Verb = iota // to every member, and SIGCONT after it
	ThawMembers             // the guard has frozen them for the next brain
	KillMembers             // and report GroupEmptied
	WatchAgain              // for hang-ups of stdin and stdout
	WakeMembers             // that are idle
)
