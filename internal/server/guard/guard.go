// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

// Package guard has the processes that are beside a server without a Go runtime: the guard, and the main
// process until its exec. The launcher's own loop is here as well.
//
//	client ── launcher ── main process, in the payload, and orphans of the server
//	            │ page and socket
//	          guard, in guards/, outside every process tree of the client
//	            └─▶ brain, a Go process, while there is something to decide
//
// The launcher is the parent of the main process and a subreaper. The guard watches the client's side, and
// outlives the launcher. It writes what happens to the page, with the time, and starts a brain to decide.
// Only where none can start does it end the server by itself. Everything here is system calls alone: no heap,
// no Go runtime, and in the guard no writable global variable. A build with -race can't run servers: the
// guard has no race detector.
package guard

import (
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/page"
)

// Most servers end by themselves in that time after a hang-up of stdin, or after a first signal: see
// neededBy. The graces of a brain count from the event.
const (
	quietAfterHangUp = 100e6
	reactWithin      = 25e6
)

// serverGuard is the guard of a server.
type serverGuard struct {
	process   process
	page      *page.Page
	events    guardEvents
	brain     brainCall
	members   members
	brainless brainless
	heard     uint32 // page.Launched.News at the last word of the launcher
}

// guardMain is the whole life of the guard of a server.
func (g *serverGuard) guardMain() {
	g.process.begin()
	g.members.open(-1)
	g.brain.sock = -1
	g.events.watchClient(g.page, g.process.launcherSock, g.process.signals)
	if g.process.replaces {
		g.takeOver()
	} else {
		g.awaitGroup()
	}
	g.heard = g.page.ByGuard.NewsRead
	for {
		g.watch()
	}
}

// takeOver goes on in the place of a guard that was killed. A brain of the guard before exits: another one
// goes on, and notes that a guard was killed.
func (g *serverGuard) takeOver() {
	g.page.ByGuard.Generation++
	g.members.open(g.page.ByGuard.Payload)
	g.events.watchMain(g.page)
	enterScope(g.page)
	g.brain.callAt = now()
}

// awaitGroup receives the group. If the launcher dies first, there is no server.
func (g *serverGuard) awaitGroup() {
	received := reception{}
	word, _ := received.read(g.process.launcherSock, 0)
	if word != page.WordGo || received.truncated {
		removeDirectories(g.page)
		exit(0)
	}
	g.page.ByGuard.Payload = received.rights.fds[0]
	g.members.open(g.page.ByGuard.Payload)
}

// watch waits for events, and reacts to them.
func (g *serverGuard) watch() {
	g.events.polls[pollBrain].Fd = g.brain.sock
	g.events.polls[pollInput].Fd = -1
	if g.idles() { // a brain that there is polls the input itself
		g.events.polls[pollInput].Fd = g.page.FD.Input
	}
	deadline := g.brain.deadline(g.page)
	if g.brainless.decides {
		deadline = g.brainless.stepsAt()
	}
	e := g.events.wait(deadline)
	if e == syscall.EINVAL { // ppoll(2): there are more than RLIMIT_NOFILE, which a member has lowered
		g.leaveOrEnd()
	}
	if e != 0 { // EINTR, after it was stopped
		return
	}
	if g.events.has(pollLauncher) {
		g.receiveLauncher()
	}
	if g.events.has(pollSignals) {
		g.receiveSignals()
	}
	for event := page.StdinClosed; event <= page.ClientDied; event++ {
		if g.events.takeEnd(pollStdin + event) {
			g.happened(event)
		}
	}
	main := g.events.polls[pollMain].Fd
	if g.events.takeEnd(pollMain) {
		closeFD(main)
		g.happened(page.MainExited)
	}
	if g.events.has(pollInput) {
		g.page.ByGuard.InputCame = true
		g.rouse()
	}
	if g.events.has(pollBrain) {
		g.receiveBrain()
	}
	g.react()
	// The launcher sees that this guard has reacted. Before it has called a brain that is needed, it has not:
	// a member may stop it again and again, and the launcher continues it until then.
	if g.brain.callAt == 0 {
		g.page.ByGuard.NewsRead = g.heard
	}
}

// leaveOrEnd exits if the launcher lives, which replaces the guard. Otherwise it ends the server.
func (g *serverGuard) leaveOrEnd() {
	stop := newBrainlessStop(g)
	if stop.launcherLives() {
		exit(1)
	}
	endAtOnce(g)
}

// happened writes the time of an event to the page, and has a brain read it, if one runs.
func (g *serverGuard) happened(event int) {
	g.page.ByGuard.Happened[event&(page.EventsRoom-1)] = now()
	g.rouse()
	if g.brain.isRunning() { // otherwise callBrain continues the launcher
		continueLauncher(g.page)
	}
	g.brain.announce()
}

// idles reports whether the members are frozen since they are idle, and no brain looks after them.
func (g *serverGuard) idles() bool { return g.page.ByBrain.Phase == page.Idle && !g.brain.isRunning() }

// rouse thaws idle members, which have to react to an event, and calls a brain.
func (g *serverGuard) rouse() {
	if g.idles() {
		g.thawIdle()
		g.brain.callBy(now())
	}
}

func (g *serverGuard) thawIdle() {
	if g.members.payload >= 0 {
		g.page.ByGuard.Roused = true
		g.members.thawIdle()
	}
}

func (g *serverGuard) receiveLauncher() {
	received := reception{}
	word, dead := received.read(g.process.launcherSock, unix.MSG_DONTWAIT)
	switch {
	case dead:
		g.events.polls[pollLauncher].Fd = -1
		g.launcherDied()
	case word == page.WordDone:
		g.finish()
	case word == page.WordLook:
		g.heard = g.page.ByLauncher.News
		g.rouse() // a signal may have come
		g.events.watchMain(g.page)
		g.brain.announce()
	}
}

// launcherDied kills the server at once: to its client a SIGKILL of the launcher is one of the server. A
// client that starts the server again finds its ports and locks free. A brain only reports that.
func (g *serverGuard) launcherDied() {
	awaitLauncherDeath(g.page)
	if g.page.ByLauncher.EndLeft == page.LeftReturned { // react calls a brain for the end
		return
	}
	if g.page.Order.ContainersFirst {
		g.members.freeze()
	} else {
		g.members.killAndWait()
		search := tagSearch{tag: g.process.lasting.tag()}
		search.killAll()
	}
	hasStarted := g.page.ByLauncher.MainPID != 0
	isReported := g.page.Order.PlainEnd != page.LauncherEnds || g.brain.isRunning()
	if hasStarted && isReported || !removeDirectories(g.page) {
		g.page.ByGuard.Happened[page.LauncherDied] = now()
		g.brain.announce()
		return
	}
	g.finish()
}

// deadWithin is the time for the pidfd of a launcher that is dead: a tracer may hold it for ever.
const deadWithin = 1e9

// awaitLauncherDeath: the socket is closed before children get their PR_SET_PDEATHSIG. A main process that is
// still on the way into the group is dead when the pidfd reports the end. So the members are killed then.
func awaitLauncherDeath(on *page.Page) {
	own, _ := sys(unix.SYS_GETPID, 0, 0, 0, 0, 0)
	dead := on.FD.Launcher < 0
	for until := now() + deadWithin; !dead && now() < until; {
		dead = endedWithin(on.FD.Launcher, 10e6)
		if on.ByGuard.GuardPID != int32(own) { // the launcher did not find this guard, and forked another
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
	g.brain.reap()
}

// finish ends the guard when nothing of the server is left, and kills its brain, if one runs.
func (g *serverGuard) finish() {
	if !g.page.ByBrain.Start.Sweeping {
		g.brain.kill(finishedWithin)
	}
	g.page.ByGuard.Over = true
	continueLauncher(g.page)
	exit(0)
}

// react starts a brain when one is needed, and replaces one that does not react.
func (g *serverGuard) react() {
	if g.brainless.decides {
		g.stepAlone()
		return
	}
	at := now()
	if g.brain.isRunning() {
		if g.brain.isUnresponsive(g.page.ByBrain.BrainReactsBy, at) {
			g.brain.forget()
			g.brainDied()
		}
		return
	}
	if g.page.Pending() {
		g.brain.callBy(max(neededBy(g.page), g.brain.retryAt))
	}
	wake := g.page.ByBrain.CallBrainAt
	if wake != 0 && at >= wake {
		g.brain.callBy(at)
	}
	if g.brain.isDue(at) {
		g.callBrain()
	}
}

// callBrain starts a brain. A member may have stopped the launcher, which has to see the end of the server.
func (g *serverGuard) callBrain() {
	g.brain.callAt = 0
	g.events.watchMain(g.page) // the launcher may have been stopped before it could send a word
	if g.page.Pending() {      // not to settle a start: a SIGCONT of the client may come at the same time
		continueLauncher(g.page)
	}
	// Then a brain could only quit. If something keeps the group, the launcher calls one.
	launcherEnds := atomic.LoadUint32(&g.page.Ender) == page.EndedByLauncher
	if launcherEnds && g.events.polls[pollLauncher].Fd >= 0 {
		g.page.ByBrain.CallBrainAt = 0
		g.brain.callBy(now() + quietAfterHangUp)
		return
	}
	if g.brain.postpone(g.page) {
		return
	}
	if g.process.startBrain(&g.brain) {
		return
	}
	if g.needsStop() {
		g.decideAlone()
		g.stepAlone()
		return
	}
	// The end of the server does not depend on this brain, so the next try can wait. Without a brain, nothing
	// looks after an idle server.
	if g.page.ByBrain.Phase == page.Idle {
		g.thawIdle()
		g.page.ByBrain.Phase = page.Running
	}
	g.brain.tryAgain(g.page, tryAgainAfter)
}

// needsStop reports whether the guard has to stop the server if no brain can.
func (g *serverGuard) needsStop() bool {
	return (g.page.Pending() || g.page.ByBrain.Phase > page.Idle) && !g.page.WaitsForEver()
}

// tryAgainAfter is for a brain that could not be started, and is not needed yet.
const tryAgainAfter = 1e9

func (g *serverGuard) receiveBrain() {
	received := reception{}
	word, dead := received.read(g.brain.sock, unix.MSG_DONTWAIT)
	switch {
	case word == page.WordDone:
		g.finish()
	case word == page.WordRest:
		g.brain.forget()
		g.brain.deaths = 0
		if g.page.ByBrain.Phase == page.Idle {
			sendWord(g.process.launcherSock, page.WordLook) // it polls the input as well
		}
		if g.page.MissedSignal() {
			g.rouse()
		}
	case dead:
		g.brain.forget()
		g.brainDied()
	case word == page.WordLook && g.page.ByBrain.Stuck:
		sendWord(g.process.launcherSock, page.WordLook)
	}
}

// quietAfterDeaths is until the next try, if nothing happens: memory may be free then, and the server has its
// times, such as --max-lifetime.
const quietAfterDeaths = 5e9

// brainDied calls the next brain. One after another may die for the same reason: then the guard ends the
// server, and does without a report.
func (g *serverGuard) brainDied() {
	g.brain.deaths++
	isLast := g.brain.deaths >= deathsMost
	// In a stop the members need not run while no brain does.
	stopping := g.page.ByBrain.Phase >= page.Terminating || g.page.ByGuard.Happened[page.LauncherDied] != 0
	switch {
	case isLast && !stopping && !g.needsStop(): // they looked after an idle server, or settled the start
		g.brain.tryAgain(g.page, quietAfterDeaths)
		g.brain.deaths = 0
		g.thawIdle() // one of them may have frozen it
		return
	case isLast:
		g.decideAlone()
		return
	case stopping:
		g.members.freeze()
	}
	g.brain.callBy(now())
}
