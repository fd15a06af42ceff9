// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package guard

import (
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/page"
)

// brainlessStop is how a guard stops a server where no brain can start, for lack of processes or memory. It
// knows one grace at a time, and writes no report.
type brainlessStop struct {
	page     *page.Page
	members  *members
	launcher int32 // socket, or -1 after the launcher's death
	tag      uint64
}

// run returns when nothing of the server is left.
func (s *brainlessStop) run() {
	if s.launcherLives() && s.page.ByBrain.Phase < page.Terminating {
		s.members.thawAlone() // a person may have frozen them, and they get the graces to end
		s.awaitOwnEnd()
		if s.page.ByLauncher.SignalsGot == 0 { // otherwise the main process has got one from the client
			sendWord(s.launcher, page.WordTerminate)
		}
		s.awaitTermGrace()
	}
	s.members.killAndWait()
	if s.launcherLives() { // members that left the group descend from it
		sendWord(s.launcher, page.WordKill)
		s.awaitLauncher()
	}
	if !s.launcherLives() { // it may have died meanwhile
		search := tagSearch{tag: s.tag}
		search.killAll()
	}
	removeDirectories(s.page)
}

func (s *brainlessStop) launcherLives() bool {
	return s.launcher >= 0 && !endedWithin(s.page.FD.Launcher, 0)
}

// awaitOwnEnd gives a server the EOF grace, if the client has closed stdin or stdout and nothing else has
// happened. A signal of the client ends the wait.
func (s *brainlessStop) awaitOwnEnd() {
	happened := &s.page.ByGuard.Happened
	since := happened[page.StdinClosed]
	if since == 0 {
		since = happened[page.StdoutClosed]
	}
	other := happened[page.ClientDied] | happened[page.MainExited] | happened[page.StopRequested]
	if since == 0 || other != 0 {
		return
	}
	grace := s.page.Order.EOFGrace
	for !isOver(since, grace, now()) && s.page.ByLauncher.SignalsGot == 0 {
		if s.endsWithin(waitEach) {
			return
		}
	}
}

// awaitTermGrace ends with a repeated signal.
func (s *brainlessStop) awaitTermGrace() {
	since := now()
	grace := s.page.Order.TermGrace
	for !isOver(since, grace, now()) && !s.page.IsRepeated() {
		if s.endsWithin(waitEach) {
			return
		}
	}
}

// waitEach is short because no event says that the last member has ended.
const waitEach = 5e6

// endsWithin reports whether the server ends in that time, or the launcher dies.
func (s *brainlessStop) endsWithin(ns int64) bool {
	s.page.ByGuard.NewsRead = s.page.ByLauncher.News // the launcher replaces a guard that does not react
	hasEnded := s.page.Exited() && s.page.ByLauncher.Childless && !s.members.populated()
	return hasEnded || endedWithin(s.page.FD.Launcher, ns)
}

// awaitLauncher waits until the launcher has killed its children, or is dead, for ten seconds at most.
func (s *brainlessStop) awaitLauncher() {
	for round := 0; round < killRounds && !s.page.ByLauncher.Childless; round++ {
		if endedWithin(s.page.FD.Launcher, 2e6) { // no event says that all have ended
			return
		}
	}
}

// removeDirectories reports whether all are gone. It leaves to a brain or a sweep what members have made
// below them.
func removeDirectories(on *page.Page) (gone bool) {
	enter(on.FD.Leaf) // it may be in one of them
	d := directories{page: on}
	gone = true
	for dir := d.next(); dir != 0; dir = d.next() {
		const tries = 100 // 100 ms
		e := removeDirectory(on.FD.Parent, dir, tries)
		gone = gone && (e == 0 || e == syscall.ENOENT)
	}
	return gone
}

// continueLauncher continues a launcher that a member has stopped.
func continueLauncher(on *page.Page) {
	on.ByGuard.Continues++
	sys(unix.SYS_PIDFD_SEND_SIGNAL, uintptr(on.FD.Launcher), uintptr(unix.SIGCONT), 0, 0, 0)
}
