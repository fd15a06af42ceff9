// SPDX-License-Identifier: Apache-2.0

package brain

import (
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/lifecycle"
	"github.com/mcpscope/mcpscope/internal/server/page"
	"github.com/mcpscope/mcpscope/internal/server/policy"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// turn is the time in which this brain decides about the server. It writes to the page how far the server is,
// for the next brain, and when the guard starts that.
type turn struct {
	server      *Server
	life        *lifecycle.Lifecycle
	generation  uint32 // the page's, when this brain began
	isLeft      bool   // to another process, which ends the server
	endingNoted bool   // in the group's attribute
}

// The guard knows these states.
var (
	_ [page.Running]struct{}     = [lifecycle.Running]struct{}{}
	_ [page.Idle]struct{}        = [lifecycle.Idle]struct{}{}
	_ [page.Terminating]struct{} = [lifecycle.Terminating]struct{}{}
)

// isOver reports whether another brain decides about the server, or its launcher has ended it.
func (t *turn) isOver() bool {
	return t.isLeft || t.server.Page.ByGuard.Generation != t.generation
}

// publish writes the state and the deadline to the page, unless the turn is over. During the call this brain
// may have been stopped and replaced, or another process may have begun to end the server: then it returns
// false, and this brain does nothing more.
func (t *turn) publish(deadline time.Time) (goesOn bool) {
	if t.isOver() {
		return false
	}
	isStop := t.life.State >= lifecycle.Terminating
	if isStop && !t.claimEnd() {
		t.isLeft = true
		return false
	}
	now := time.Now()
	t.writeState(now)
	t.writeDeadline(deadline, now)
	if isStop && !t.endingNoted {
		t.endingNoted = true
		t.server.Group.Ending(t.life.Cause)
	}
	return !t.isOver()
}

// claimEnd has this brain end the server. It fails if the launcher does, of whose server nothing is left.
func (t *turn) claimEnd() bool {
	ender := &t.server.Page.Ender
	if atomic.CompareAndSwapUint32(ender, page.NotEnding, page.EndedByBrain) {
		return true
	}
	return atomic.LoadUint32(ender) == page.EndedByBrain || !t.server.launcherLives()
}

// writeState writes cause, state and the deadline of the state. A next brain that finds a grace without its
// deadline would never kill. So a deadline is written before its state, and 0, for none, after that.
func (t *turn) writeState(now time.Time) {
	decided := &t.server.Page.ByBrain
	decided.Cause = t.life.Cause.Number() | uint32(t.life.Signal)<<16
	if t.life.State == lifecycle.Doubting { // the next brain gets the event again, and begins a new doubt
		decided.Handled &^= 1 << page.ClientDied
	}
	ends := monotonic(t.life.PhaseEnds(), now)
	if ends != 0 {
		decided.PhaseEnds = ends
	}
	decided.Phase = uint32(phase(t.life.State, t.server.Config.StartedByClient))
	decided.PhaseEnds = ends
}

// phase is the state that the next brain begins in. taken: the server is a gateway's.
func phase(state lifecycle.State, taken bool) lifecycle.State {
	switch {
	case state == lifecycle.Doubting: // the next brain begins the doubt again
		return lifecycle.Running
	case taken && state > lifecycle.Idle && state < lifecycle.Terminating:
		return lifecycle.Running // the next watcher sees the client's side itself
	}
	return state
}

// writeDeadline writes by when this brain reacts. After that the guard replaces it.
func (t *turn) writeDeadline(deadline, now time.Time) {
	decided := &t.server.Page.ByBrain
	reactsBy := monotonic(t.reactsBy(deadline, now), now)
	if reactsBy != decided.BrainReactsBy {
		decided.BrainReactsBy = reactsBy
		t.server.Guard.Look()
	}
}

// reactsBy is when this brain has changed the deadline on the page, if it reacts. deadline is when it wakes
// up. KillWithin is more than any of its steps takes.
func (t *turn) reactsBy(deadline, now time.Time) time.Time {
	graceEnds := t.life.PhaseEnds()
	switch {
	case t.life.State >= lifecycle.Killing: // it kills, reports and removes without another deadline
		return now.Add(protocol.EndWithin(t.server.Config))
	case t.life.State >= lifecycle.Terminating && graceEnds.IsZero(): // an endless grace
		return time.Time{}
	case t.life.State >= lifecycle.Terminating: // before that it only checks whether the group is empty
		return graceEnds.Add(policy.KillWithin)
	case deadline.IsZero(): // the guard writes a deadline when it has news
		return time.Time{}
	default: // it measures an idle server, or checks whether a doubt or a grace is over
		return deadline.Add(policy.KillWithin)
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

// fromMonotonic is the inverse of monotonic.
func fromMonotonic(nanos int64) time.Time {
	if nanos == 0 {
		return time.Time{}
	}
	now := time.Now()
	return now.Add(time.Duration(nanos - monotonic(now, now)))
}
