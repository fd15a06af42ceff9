// SPDX-License-Identifier: Apache-2.0

package brain

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/kernel/loop"
	"github.com/mcpscope/mcpscope/internal/server/client"
	"github.com/mcpscope/mcpscope/internal/server/container"
	"github.com/mcpscope/mcpscope/internal/server/idle"
	"github.com/mcpscope/mcpscope/internal/server/lifecycle"
	"github.com/mcpscope/mcpscope/internal/server/names"
)

// actor reports events to the lifecycle, and performs the actions that follow.
type actor struct {
	server  *Server
	loop    *loop.Loop
	client  *client.Side // nil before its events are watched
	life    *lifecycle.Lifecycle
	turn    turn
	killer  *killer
	sleeper *idle.Sleeper // nil for a server that is never frozen

	inputCame bool // the present event is input for a server that is frozen
	helpless  bool // it could not kill the members, for lack of descriptors for example
	// emptyCheckAt is the next check whether the group is empty, and emptyCheckPause the time before it.
	emptyCheckAt    time.Time
	emptyCheckPause time.Duration
}

// begin starts the lifecycle, and the turn of this brain.
func (a *actor) begin() {
	c := a.server.Config
	a.life = lifecycle.New(c.Policy, facts{a}, time.Unix(0, c.Started), time.Now())
	a.turn = turn{server: a.server, life: a.life, generation: a.server.Page.ByGuard.Generation}
}

// deadline is when this brain has to do something without an event; the zero time for never.
func (a *actor) deadline() time.Time {
	due := a.life.Due()
	isStop := a.life.State >= lifecycle.Terminating
	if isStop && (due.IsZero() || a.emptyCheckAt.Before(due)) {
		return a.emptyCheckAt
	}
	if a.sleeper != nil && (due.IsZero() || a.sleeper.Policy.Due.Before(due)) {
		return a.sleeper.Policy.Due
	}
	return due
}

// publish writes the state to the page. It returns whether this brain may go on.
func (a *actor) publish() bool { return a.turn.publish(a.deadline()) }

func (a *actor) report(e lifecycle.Event) { a.reportAs(e, false) }

// reportAs reports an event; mainHas as of performAs.
func (a *actor) reportAs(e lifecycle.Event, mainHas bool) {
	a.performAs(a.life.Handle(e, time.Now()), mainHas)
}

// reportInput reports that a frozen server has input.
func (a *actor) reportInput() {
	a.inputCame = true
	a.report(lifecycle.Woken)
	a.inputCame = false
}

// handleExit handles the end of the main process. Before that it gives other members 3 ms to end, too. If
// none is left it discards the actions of the stop: there is no member to signal.
func (a *actor) handleExit() []lifecycle.Action {
	e := lifecycle.MainExited
	if a.killer.record.killedForMemory() {
		e = lifecycle.MemoryExhausted
	}
	isEmpty := a.expectEmpty()
	actions := a.life.Handle(e, time.Now())
	if isEmpty && a.life.State == lifecycle.Terminating {
		return a.life.Handle(lifecycle.GroupEmptied, time.Now())
	}
	return actions
}

// perform performs actions for which the main process needs its signal.
func (a *actor) perform(actions []lifecycle.Action) { a.performAs(actions, false) }

// performAs performs the actions for an event; mainHas: the main process has got its signal from the
// launcher.
func (a *actor) performAs(actions []lifecycle.Action, mainHas bool) {
	a.publish() // the loop sees whether the turn is over
	for _, action := range actions {
		if a.turn.isOver() {
			return
		}
		switch action.Do {
		case lifecycle.SendSignal:
			a.leaveClient()
			a.signalMembers(action.Signal, mainHas)
		case lifecycle.ThawMembers:
			_ = a.server.Group.Members().Thaw() // it was removed
			a.expectEmpty()
		case lifecycle.ThawStopped:
			_ = freeze.ThawStopped(a.server.Group.Members()) // it was removed
			a.expectEmpty()
		case lifecycle.KillMembers:
			a.killMembers()
		case lifecycle.WakeMembers:
			if a.sleeper != nil {
				a.sleeper.Wake(time.Now(), a.inputCame)
			}
		}
	}
}

// leaveClient closes the client's side at a stop: no event of the client matters any more, and descriptors
// may be few. A watcher keeps it, since it has the client's side of other servers as well.
func (a *actor) leaveClient() {
	if !a.server.Config.StartedByClient && a.client != nil {
		a.client.Close()
	}
}

// signalMembers sends a signal to each member; mainHas: the main process has got it.
func (a *actor) signalMembers(sig unix.Signal, mainHas bool) {
	s := a.server
	a.killer.record.recordOthers()
	a.killer.record.measureEarly()
	var except []int
	if mainHas {
		except = []int{int(s.Page.ByLauncher.MainPID)}
	}
	freeze.Ask(s.Group.Members(), sig, except...)
	s.Page.ByBrain.MembersAsked = true
	a.expectEmpty()
}

// killMembers freezes and kills all members. It blocks: no other event matters.
func (a *actor) killMembers() {
	s := a.server
	a.killer.record.recordOthers()
	if container.EndsFirst(s.Config.Engine) && s.Config.Group.Backend != names.Tree {
		_ = s.Group.Members().Thaw() // the guard has frozen them for a later brain
		a.killer.stopContainers(0)
	}
	a.leaveClient()
	a.killer.killAll(s.Group.Members(), noteLeft)
	if !s.Config.StartedByClient && len(a.killer.stuck) == 0 && s.mayBePopulated() {
		a.helpless = true
		a.turn.isLeft = true // the guard ends the server, or starts another brain
		return
	}
	a.report(lifecycle.GroupEmptied)
}

const (
	emptyWithin     = 3 * time.Millisecond // the kernel delays a notification for up to 10 ms
	emptyCheckFirst = 5 * time.Millisecond
	emptyCheckMost  = 100 * time.Millisecond // a delayed notification can be lost; no event for a tree
)

// expectEmpty waits a moment for a group that may be empty soon, reports whether it is, and has the next
// check come at once.
func (a *actor) expectEmpty() (isEmpty bool) {
	members := a.server.Group.Members()
	isEmpty, _ = freeze.AwaitEmpty(members, time.Now().Add(emptyWithin)) // false, if it can't be read
	a.emptyCheckPause = emptyCheckFirst
	a.emptyCheckAt = time.Now()
	return isEmpty || a.server.isChildlessTree()
}

// checkEmpty checks, less and less often, whether a stop has left no member.
func (a *actor) checkEmpty() {
	state := a.life.State
	if state < lifecycle.Terminating || state == lifecycle.Emptied || time.Now().Before(a.emptyCheckAt) {
		return
	}
	a.emptyCheckPause = min(2*max(a.emptyCheckPause, emptyCheckFirst), emptyCheckMost)
	a.emptyCheckAt = time.Now().Add(a.emptyCheckPause)
	if !a.server.mayBePopulated() {
		a.report(lifecycle.GroupEmptied)
	}
}
