// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package guard

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/decide"
	"github.com/mcpscope/mcpscope/internal/server/page"
)

// brainless is how far a guard has come that decides about a server where no brain can start, for lack of
// processes or memory. It writes no report.
type brainless struct {
	decides bool
	state   decide.State
}

// decideAlone has this guard stop the server. A brain that has begun that may have used up the term grace.
func (g *serverGuard) decideAlone() {
	own := &g.brainless
	own.decides = true
	g.brain.callAt = 0
	switch {
	case g.page.ByBrain.Phase >= page.Terminating:
		own.state = decide.State{Phase: decide.Terminating, Deadline: now()}
	case g.page.ByBrain.Phase == page.Idle:
		g.thawIdle()
		g.page.ByBrain.Phase = page.Running
	}
}

// stepsAt is when the next step is due, or 0. No event says that the last member has ended.
func (b *brainless) stepsAt() int64 {
	const waitEach = 5e6
	if b.state.Phase >= decide.Leaving {
		return now() + waitEach
	}
	return b.state.Deadline
}

// stepAlone decides, and performs what was decided.
func (g *serverGuard) stepAlone() {
	stop := newBrainlessStop(g)
	if stop.step(&g.brainless.state) {
		removeDirectories(g.page)
		g.finish()
	}
}

// endAtOnce is a kill without further events.
func endAtOnce(g *serverGuard) {
	g.members.killAndWait()
	search := tagSearch{tag: g.process.lasting.tag()}
	search.killAll()
	removeDirectories(g.page)
	g.finish()
}

func newBrainlessStop(g *serverGuard) brainlessStop {
	return brainlessStop{
		page:     g.page,
		members:  &g.members,
		launcher: g.events.polls[pollLauncher].Fd,
		search:   tagSearch{tag: g.process.lasting.tag()},
	}
}

// brainlessStop has what such a guard needs to see and to do.
type brainlessStop struct {
	page     *page.Page
	members  *members
	launcher int32 // socket, or -1 after the launcher's death
	search   tagSearch
}

// step returns true when nothing of the server is left, or nothing that could be ended.
func (s *brainlessStop) step(state *decide.State) (isOver bool) {
	order := &s.page.Order
	times := decide.Times{EOFGrace: order.EOFGrace, TermGrace: order.TermGrace}
	for {
		facts := s.facts(state.Phase)
		switch decide.Step(state, &facts, &times) {
		case decide.Thaw:
			s.members.thawAlone() // a person may have frozen them
		case decide.Ask:
			s.ask()
		case decide.Kill:
			s.kill()
		case decide.Remove:
			return true
		default:
			isStuck := state.IsStuck(facts.Now)
			if isStuck {
				writeLeft(s.page)
			}
			return isStuck
		}
	}
}

// writeLeft has the launcher say that something is left.
func writeLeft(on *page.Page) {
	const text = "a process that SIGKILL does not end\n"
	for i := range len(text) {
		on.ByBrain.Left[i] = text[i]
	}
}

// facts are those of a guard that can ask no brain who else holds stdin: then a dead client has left it.
func (s *brainlessStop) facts(phase decide.Phase) decide.Facts {
	happened := &s.page.ByGuard.Happened
	launcher := &s.page.ByLauncher
	f := decide.Facts{
		Now:          now(),
		HungUpAt:     earlier(happened[page.StdinClosed], happened[page.StdoutClosed]),
		Abandoned:    happened[page.ClientDied] != 0,
		LauncherDead: !s.launcherLives(),
		MainEnded:    s.page.Exited() || happened[page.MainExited] != 0,
		Requested:    happened[page.StopRequested] != 0 || s.page.ByOthers.Stop,
		Signalled:    launcher.SignalsGot > 0,
		Repeated:     s.page.IsRepeated(),
	}
	switch {
	case f.LauncherDead:
		f.Empty = !s.members.populated() && !s.search.exists()
	case f.MainEnded:
		f.Empty = launcher.Childless && !s.members.populated()
	case phase == decide.Grace:
		f.Unread = isUnread(s.page, f.Abandoned)
	}
	return f
}

// earlier is the earlier one of two times, where 0 stands for never.
func earlier(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// isUnread reports whether the server has not read all input, or a client that lives not all output. A socket
// that has hung up always looks as if it had input.
func isUnread(on *page.Page, clientIsDead bool) bool {
	isPipe := on.Started.Conveyed && !on.Started.Socket
	hasInput := isPipe && hasEvent(on.FD.Input, unix.EPOLLIN)
	room := on.FD.Room[0]
	isFull := room >= 0 && !hasEvent(room, unix.EPOLLOUT|unix.EPOLLERR|unix.EPOLLHUP)
	return hasInput || isFull && !clientIsDead
}

// hasEvent reports whether there is one of these events now for the file in an epoll set.
func hasEvent(set int32, events uint32) bool {
	event := unix.EpollEvent{}
	n, e := sys(unix.SYS_EPOLL_PWAIT, uintptr(set), uintptr(unsafe.Pointer(&event)), 1, 0, 0)
	return e == 0 && n == 1 && event.Events&events != 0
}

func (s *brainlessStop) launcherLives() bool {
	return s.launcher >= 0 && !endedWithin(s.page.FD.Launcher, 0)
}

// ask sends all members the signal of the stop. The launcher tells the main process, which has got a signal
// of the client already.
func (s *brainlessStop) ask() {
	s.members.thawAlone()
	sig, isClients := signalOfStop(s.page)
	if !isClients {
		sendWord(s.launcher, page.WordTerminate)
	}
	s.search.ask(sig, s.page.ByLauncher.MainPID)
}

// kill kills those in the group, those that descend from the launcher, and those with the tag. Before Linux
// 5.14 the members are frozen, and killed one by one.
func (s *brainlessStop) kill() {
	if !s.members.kill() {
		s.members.freeze()
	}
	if s.launcherLives() {
		sendWord(s.launcher, page.WordKill)
	}
	s.search.signalEach(unix.SIGKILL)
}

// continueLauncher continues a launcher that a member has stopped.
func continueLauncher(on *page.Page) {
	on.ByGuard.Continues++
	sys(unix.SYS_PIDFD_SEND_SIGNAL, uintptr(on.FD.Launcher), uintptr(unix.SIGCONT), 0, 0, 0)
}
