// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

// Package guard has the processes that are beside a server without a Go runtime: the guard, and the main
// process until its exec. The launcher's own loop is here as well.
//
//	client ── launcher ── main process, in the payload, and orphans of the server
//	            │ page and socket
//	          guard, in guards/, outside every process tree of the client
//	            └─▶ helper, a Go process, for what raw code can't do
//
// The launcher is the parent of the main process and a subreaper. The guard watches the client's side, and
// outlives the launcher. It decides when the server is stopped (package decide), and stops it. Everything
// here is system calls alone: no heap, no Go runtime, and in the guard no writable global variable. A build
// with -race can't run servers: the guard has no race detector.
package guard

import (
	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/decide"
	"github.com/mcpscope/mcpscope/internal/server/page"
)

// serverGuard is the guard of a server.
type serverGuard struct {
	process process
	page    *page.Page
	events  guardEvents
	helper  helperCall
	stop    stop
}

// guardMain is the whole life of the guard of a server.
func (g *serverGuard) guardMain() {
	g.process.begin()
	g.stop.begin(g.process.lasting.tag(), g.process.launcherSock)
	g.helper.sock = -1
	g.events.watchClient(g.page, g.process.launcherSock, g.process.signals)
	if g.process.replaces {
		g.takeOver()
	} else {
		g.awaitGroup()
	}
	for {
		g.watch()
	}
}

// takeOver goes on in the place of a guard that was killed. A helper of the guard before exits: another one
// notes that a guard was killed.
func (g *serverGuard) takeOver() {
	g.page.ByGuard.Generation++
	g.stop.reach(g.page.ByGuard.Payload)
	enterScope(g.page)
	g.readRequest()
	g.wake()
	g.thawIdle() // the helper before may have frozen them without a word about it
	g.page.ByHelper.CallHelperAt = now()
	g.stop.resume()
}

// awaitGroup receives the group. If the launcher dies first, there is no server. A guard that the launcher
// has not found leaves the directories, which may be those of the server that starts with another one.
func (g *serverGuard) awaitGroup() {
	received := reception{}
	word, _ := received.read(g.process.launcherSock, 0)
	if word != page.WordGo || received.truncated {
		if g.page.ByGuard.GuardPID == ownPID() {
			removeDirectories(g.page)
		}
		exit(0)
	}
	g.stop.reach(received.rights.FDs[0])
	g.readRequest()
}

// readRequest reads a request of a stop that was recorded when no guard could be found, which has its name by
// now.
func (g *serverGuard) readRequest() {
	if isStopRecorded(g.page.ByGuard.Payload) {
		g.happened(page.StopRequested)
	}
}

// receiveLauncher reads a word of the launcher, and reports whether there was one.
func (g *serverGuard) receiveLauncher() bool {
	received := reception{}
	word, dead := received.read(g.process.launcherSock, unix.MSG_DONTWAIT)
	switch {
	case dead:
		g.launcherDied()
		return false
	case word == page.WordDone:
		g.finish()
	case word == page.WordLook:
		g.wake() // a signal may have come
	}
	return word != 0
}

// launcherDied kills the server at once: to its client a SIGKILL of the launcher is one of the server. A
// client that starts the server again finds its ports and locks free.
func (g *serverGuard) launcherDied() {
	awaitLauncherDeath(g.page)
	g.events.polls[pollLauncher].Fd = -1
	g.stop.launcher = -1
	if g.page.ByLauncher.EndLeft == page.LeftReturned { // it has returned, and nothing was left
		return
	}
	g.page.ByGuard.Happened[page.LauncherDied] = now() // idle members stay frozen until they are killed
}

// deadWithin is the time for the pidfd of a launcher that is dead: a tracer may hold it for ever.
const deadWithin = 1e9

// awaitLauncherDeath: the socket is closed before children get their PR_SET_PDEATHSIG. A main process that is
// still on the way into the group is dead when the pidfd reports the end. So the members are killed then.
func awaitLauncherDeath(on *page.Page) {
	own := ownPID()
	dead := on.FD.Launcher < 0
	for until := now() + deadWithin; !dead && now() < until; {
		dead = endedWithin(on.FD.Launcher, 10e6)
		if on.ByGuard.GuardPID != own { // the launcher did not find this guard, and forked another
			exit(0)
		}
	}
}

// receiveSignals reads SIGCHLD, and the request of a stop. All other signals mean nothing: some programs send
// them to whatever has no client above it.
func (g *serverGuard) receiveSignals() {
	for sig := g.process.nextSignal(); sig != 0; sig = g.process.nextSignal() {
		if sig == uint32(stopSignal) {
			g.happened(page.StopRequested)
		}
	}
	g.helper.reap()
}

// finish ends the guard when nothing of the server is left, and kills its helper, if one runs.
func (g *serverGuard) finish() {
	if !g.page.ByHelper.Start.Sweeping {
		g.helper.kill(finishedWithin)
	}
	g.page.ByGuard.Over = true
	continueLauncher(g.page)
	exit(0)
}

// react makes the next steps of a stop, and has a helper do its tasks.
func (g *serverGuard) react() {
	isUnread := g.events.polls[pollLauncher].Fd >= 0 && !g.stop.launcherLives()
	if isUnread { // it may have sent words before its death, the last of which is that nothing is left
		for g.receiveLauncher() {
		}
		if g.stop.launcher >= 0 { // somebody else has its end of the socket
			g.launcherDied()
		}
	}
	g.events.watchMain(g.page)
	g.events.awaitReaped(&g.stop)
	g.seeIdle()
	if g.stop.step(g.helper.failed) {
		g.end()
	}
	g.helper.setTasks(&g.stop, &g.events)
	g.callHelper()
	// A helper may have frozen the members after an event that they have to react to.
	isStopping := g.page.ByGuard.Stop.State.Phase != decide.Running
	if g.page.ByHelper.Frozen && (isStopping || g.page.MissedSignal()) {
		g.wake()
	}
}

// seeIdle writes the event that a helper's look brings.
func (g *serverGuard) seeIdle() {
	if page.IsNewlyIdle(g.page) {
		g.happened(page.IdleTooLong)
	}
}

// deadline is when react has something to do without an event; 0 for never.
func (g *serverGuard) deadline() int64 {
	first := decide.Earlier(g.stop.wakesAt(), g.helper.dueBy)
	first = decide.Earlier(first, g.events.reapDueAt(&g.stop))
	if !g.helper.isRunning() {
		first = decide.Earlier(first, g.helper.neededAt(g.page))
	}
	return first
}

// end removes what is left of the server. If the end is reported, a helper does so.
func (g *serverGuard) end() {
	if !g.stop.claimEnd() { // the launcher ends it
		return
	}
	g.stop.recordCause()
	launcherIsDead := !g.stop.launcherLives()
	hasReturned := g.page.ByLauncher.EndLeft == page.LeftReturned
	hasStarted := g.page.ByLauncher.MainPID != 0
	isReported := hasStarted && g.page.Order.PlainEnd != page.LauncherEnds || !launcherIsDead || hasReturned
	isStuck := g.page.ByGuard.Stop.State.IsStuck()
	if isReported || isStuck {
		if g.helper.failed&page.End == 0 {
			haveEnded(g.page)
			return
		}
		if isStuck {
			writeLeft(g.page)
		}
	}
	isRemoved := removeDirectories(g.page)
	if !isRemoved && g.helper.failed&page.End == 0 {
		haveEnded(g.page)
		return
	}
	g.finish()
}

// haveEnded has a helper report the end. That needs the status of the main process, which a launcher that a
// member has stopped has not read.
func haveEnded(on *page.Page) {
	if on.ByGuard.Tasks&page.End == 0 {
		continueLauncher(on)
	}
	on.ByGuard.Tasks |= page.End
}

// callHelper starts a helper that is needed, and tells one that runs of its tasks.
func (g *serverGuard) callHelper() {
	at := now()
	tasks := g.page.ByGuard.Tasks
	c := &g.helper
	dueBy := at + taskWithin + g.page.Order.EndWithin
	if c.isRunning() {
		if tasks&^c.tasks != 0 {
			c.announce()
			c.dueBy = dueBy
		}
		c.tasks = tasks
		if tasks == 0 || g.page.ByHelper.Stuck { // then it waits for a member
			c.dueBy = 0
		}
		if c.dueBy != 0 && at >= c.dueBy {
			c.forget()
			g.helperDied()
		}
		return
	}
	needed := c.neededAt(g.page)
	if needed == 0 || at < needed {
		return
	}
	g.page.ByHelper.CallHelperAt = 0
	c.tasks = tasks
	c.dueBy = 0
	if tasks != 0 {
		c.dueBy = dueBy
	}
	if !g.process.startGo(&c.goProcess) {
		g.helperDied()
	}
}

func (g *serverGuard) receiveHelper() {
	received := reception{}
	word, dead := received.read(g.helper.sock, unix.MSG_DONTWAIT)
	switch {
	case word == page.WordDone:
		g.finish()
	case word == page.WordRest:
		g.helper.forget()
		g.helper.deaths = 0
	case dead:
		g.helper.forget()
		g.helperDied()
	case word == page.WordLook && (g.page.ByHelper.Stuck || g.page.ByHelper.Daemons.HasKept):
		sendWord(g.process.launcherSock, page.WordLook)
	}
}

const (
	nextHelperAfter  = 100e6
	quietAfterDeaths = 5e9 // without a task: memory may be free then
)

// helperDied has another helper start. One after another may die for the same reason: then the guard does
// without what they should have done.
func (g *serverGuard) helperDied() {
	if g.page.ByGuard.Stop.State.Phase == decide.Running {
		g.thawIdle() // it may have frozen them
	}
	g.helper.deaths++
	isNext := g.page.ByGuard.Tasks != 0 && g.helper.deaths < deathsMost
	if isNext {
		g.helper.retryAt = now() + nextHelperAfter // it may have been the lack of a process for a moment
		return
	}
	g.helper.deaths = 0
	g.helper.retryAt = now() + quietAfterDeaths
	g.page.ByHelper.CallHelperAt = g.helper.retryAt
	g.helper.failed |= g.page.ByGuard.Tasks
	if g.helper.failed&page.End != 0 {
		g.end()
	}
}
