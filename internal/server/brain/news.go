// SPDX-License-Identifier: Apache-2.0

package brain

import (
	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/lifecycle"
	"github.com/mcpscope/mcpscope/internal/server/page"
)

// eventsOf are the events of the lifecycle, by event of the page. readMainExit handles the end of the main
// process, which may be MemoryExhausted.
var eventsOf = [page.Events]lifecycle.Event{
	page.StdinClosed:   lifecycle.StdinClosed,
	page.StdoutClosed:  lifecycle.StdoutClosed,
	page.ClientDied:    lifecycle.ClientDied,
	page.MainExited:    lifecycle.MainExited,
	page.LauncherDied:  lifecycle.LauncherDied,
	page.StopRequested: lifecycle.StopRequested,
}

// news are the events, signals and the exit that launcher and guard write to the page for a brain.
type news struct {
	actor *actor
}

// begin forgets the signals that were forwarded before this brain, if the server has run since then.
func (n *news) begin() {
	on := n.actor.server.Page
	if !on.MissedSignal() {
		on.ByBrain.ForwardedRead = on.ByLauncher.Forwarded
	}
}

// read reports what is new on the page, with its time: signals first, and then events in the order of the
// page.
func (n *news) read() {
	n.readForwarded()
	n.readSignals()
	n.readEvents()
	n.readMainExit()
}

// performMarked performs the actions for something on the page, and marks it as handled. This brain may be
// killed between any two of these steps:
//
//	the new state goes to the page   killed after it: the next brain handles the event once more, harmlessly
//	the mark goes to the page        killed after it: the next brain repeats the actions of the state
//	the actions are performed
//
// There is no mark if the launcher ends the server, or another brain decides.
func (n *news) performMarked(actions []lifecycle.Action, mainHas bool, mark func()) {
	if !n.actor.publish() {
		return
	}
	mark()
	n.actor.performAs(actions, mainHas)
}

// readForwarded wakes a server that has got a signal that stops nothing: only one that runs can react.
func (n *news) readForwarded() {
	launched := &n.actor.server.Page.ByLauncher
	decided := &n.actor.server.Page.ByBrain
	if launched.Forwarded != decided.ForwardedRead {
		decided.ForwardedRead = launched.Forwarded
		n.actor.report(lifecycle.Woken)
	}
}

func (n *news) readSignals() {
	launched := &n.actor.server.Page.ByLauncher
	decided := &n.actor.server.Page.ByBrain
	for decided.SignalsRead != launched.SignalsGot && !n.actor.turn.isOver() {
		s := launched.Signals[decided.SignalsRead%page.SignalsMost]
		n.actor.report(lifecycle.Woken)
		actions := n.actor.life.HandleSignal(unix.Signal(s.Number), fromMonotonic(s.At))
		n.performMarked(actions, s.ToMain, func() { decided.SignalsRead++ })
	}
}

func (n *news) readEvents() {
	seen := &n.actor.server.Page.ByGuard
	decided := &n.actor.server.Page.ByBrain
	for event, reported := range eventsOf {
		isHandled := decided.Handled&(1<<event) != 0
		if seen.Happened[event] == 0 || isHandled || event == page.MainExited || n.actor.turn.isOver() {
			continue
		}
		if event == page.LauncherDied {
			n.actor.server.Group.ForgetRoot()
		}
		actions := n.actor.life.Handle(reported, fromMonotonic(seen.Happened[event]))
		n.performMarked(actions, false, func() { decided.Handled |= 1 << event })
	}
}

// readMainExit handles the end of the main process once. The launcher sees it (Exited, and EndLeft if
// members are left), and so does the guard, as a member may have stopped the launcher (page.MainExited).
func (n *news) readMainExit() {
	p := n.actor.server.Page
	hasExited := p.Exited() || p.ByGuard.Happened[page.MainExited] != 0
	hasNotBegun := p.ByLauncher.FailedStep == page.StepFork
	isHandled := p.ByBrain.Handled&page.HandledEnd != 0
	if !hasExited && !hasNotBegun || isHandled || n.actor.turn.isOver() {
		return
	}
	mark := func() { p.ByBrain.Handled |= page.HandledEnd | 1<<page.MainExited }
	n.performMarked(n.actor.handleExit(), false, mark)
}
