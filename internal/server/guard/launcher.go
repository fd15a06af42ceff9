// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package guard

import (
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/decide"
	"github.com/mcpscope/mcpscope/internal/server/page"
)

// Launcher is the launcher from the birth of the server to its end: the parent of the main process. Its loop
// is system calls alone. It decides nothing but whether the guard lives, and whether anything is left.
type Launcher struct {
	page     *page.Page
	keeper   guardKeeper
	group    serverGroup
	children children
	Signals  Signals
	events   launcherEvents

	end End
	// Failed is the page of a plan that has failed, or nil. Nothing of the server is left.
	Failed *page.Page
	over   bool // main has to report the end
	leaves bool // a helper ends the server: this process could not remove the group
}

// End is why the launcher does not wait any more.
type End uint32

const (
	NotEnded      End = iota
	NothingLeft       // the launcher removes the group, or a helper or main does and reports
	HelperEndedIt     // a helper has removed it, and has reported
	MembersStuck      // a helper waits for members that SIGKILL has not ended
)

// attach has the launcher use a page. It has nothing else yet.
func (l *Launcher) attach(on *page.Page) {
	l.page = on
	l.keeper.page = on
	l.keeper.guard = page.Guard{Page: on, Sock: -1, PIDFD: -1}
	l.group.page = on
	l.group.payload = -1
	l.group.kills = -1
	l.children.page = on
	l.children.list = -1
	l.Signals.fd = -1
}

// arm hands the group to the guard, before the main process may start in it. It opens the files that end the
// server: later there may be no descriptor left.
func (l *Launcher) arm() syscall.Errno {
	l.children.openList()
	l.group.openKill()
	handed := l.keeper.guard.Go(int(l.group.payload))
	if handed != 0 && handed != syscall.EPIPE { // a killed guard is replaced
		return handed
	}
	// Before, the guard would have become a child of this process. It can't fail (prctl(2)).
	sys(unix.SYS_PRCTL, unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	return 0
}

// begin goes on when the main process has started, or could not be.
func (l *Launcher) begin(main int32, e syscall.Errno) {
	if e != 0 {
		l.page.ByLauncher.FailedStep = page.StepFork
		l.page.ByLauncher.Errno = uint32(e)
		return
	}
	l.page.ByLauncher.MainPID = main
	session, _ := sys(unix.SYS_GETSID, 0, 0, 0, 0, 0) // it can't fail
	l.page.ByLauncher.Session = int32(session)
	l.page.ByLauncher.StartedAt = now()
	l.children.main = main
	l.children.tag = l.keeper.lasting.tag()
	l.events.watch(int32(l.keeper.guard.Sock), l.Signals.fd)
	l.keeper.announce()
}

// react reacts to the events of a ppoll(2), which has returned an error or 0.
func (l *Launcher) react(e syscall.Errno) {
	l.events.take(e)
	if l.events.has(fromSignals) {
		l.receiveSignals()
	}
	switch {
	case l.keeper.isMissing:
		l.replaceGuard()
	case l.events.has(fromGuard):
		l.receiveGuard()
	}
	sig := l.children.stopped
	l.children.stopped = 0
	if l.page.ByGuard.Stop.State.Phase < decide.Terminating { // a kill of a tree begins with SIGSTOP, too
		l.Signals.stopToo(sig)
	}
}

// announceEnd has the guard read the page at an event that ends the server. The guard may be frozen with its
// scope.
func (l *Launcher) announceEnd() {
	l.group.thawScope()
	l.keeper.announce()
}

// receiveSignals passes signals on. Those by which a client ends a server go to the page as well.
func (l *Launcher) receiveSignals() {
	buf := &l.group.buf
	n := l.Signals.receive(buf)
	for i := uintptr(0); i < n; i += signalfdRecord {
		if isOfRuntime(buf, i) {
			continue
		}
		l.passSignal(unix.Signal(buf[i&(uintptr(len(buf))-1)]), isByKernel(buf, i))
	}
	l.reap()
}

// reap waits for children that have ended.
func (l *Launcher) reap() {
	l.children.reap()
	if l.page.Exited() {
		l.mainEnded()
	}
}

func (l *Launcher) passSignal(sig unix.Signal, byKernel bool) {
	bit := uint64(1) << (uint64(sig-1) & 63)
	mainHas := l.Signals.terminal || l.Signals.shared && byKernel
	switch {
	case sig == unix.SIGCHLD:
		return
	case sig == unix.SIGCONT && l.page.ByGuard.Stop.State.Phase >= decide.Terminating: // by the guard
		return
	case mainHas && bit&ofTerminal != 0:
		l.page.ByLauncher.Forwarded++
	case sig == unix.SIGHUP && !byKernel && !l.Signals.hasLostTerminal(): // many servers reload
		l.children.signalMain(sig)
		l.page.ByLauncher.Forwarded++
	case bit&ending != 0:
		isFirst := l.page.ByLauncher.SignalsGot == 0
		toMain := isFirst && l.page.ByGuard.Stop.State.Phase < decide.Terminating // no member gets two
		if toMain {
			l.children.signalMain(sig)
			l.children.signalMain(unix.SIGCONT)
		}
		l.page.AddSignal(page.Signal{At: now(), Number: uint32(sig), ToMain: toMain})
		l.announceEnd()
		return
	default:
		l.children.signalMain(sig)
		l.page.ByLauncher.Forwarded++
	}
	l.keeper.announce()
}

// mainEnded ends the wait if nothing else is left. Members that notice the end of the main process get 3 ms.
func (l *Launcher) mainEnded() {
	if l.leaves && !l.keeper.isMissing {
		return
	}
	for try := int64(0); try < 16; try++ {
		if l.nothingIsLeft() {
			hasClaim := page.ClaimForLauncher(l.page) // unless the guard ends the server
			if hasClaim || l.keeper.isMissing {
				l.end = NothingLeft
			} else {
				l.announceEnd()
			}
			return
		}
		isLeftToGuard := l.page.ByLauncher.EndLeft != page.NotLeft
		if isLeftToGuard {
			l.announceEnd() // another one has ended
			return
		}
		sleep(20e3 * (try + 1))
		l.children.reap()
	}
	l.page.ByLauncher.EndLeft = page.LeftWaiting
	l.announceEnd()
}

// nothingIsLeft reports whether all members have ended. Without a guard there may be no descriptor that shows
// whether the group has a process. A group that can be removed is empty.
func (l *Launcher) nothingIsLeft() bool {
	switch {
	case !l.page.ByLauncher.Childless:
		return false
	case !l.group.populated():
		return true
	}
	return l.keeper.isMissing && l.group.remove()
}

func (l *Launcher) receiveGuard() {
	word, flags := receive(int32(l.keeper.guard.Sock), new(page.Rights), unix.MSG_DONTWAIT)
	switch {
	case flags&deadPeer != 0 && l.page.ByGuard.Over:
		l.children.awaitStatus()
		l.end = HelperEndedIt
	case flags&deadPeer != 0:
		l.keeper.forget()
		l.replaceGuard()
	case l.page.ByHelper.Stuck: // before further kills
		l.end = MembersStuck
	case word == page.WordKill:
		l.children.killAll()
		l.reap()
	case word == page.WordLook: // a child may not be the server's any more
		l.reap()
	}
}

// replaceGuard forks another guard. Where no process can be forked nothing could end the server later: so it
// is killed.
func (l *Launcher) replaceGuard() {
	l.page.ByGuard.Payload = l.group.payload
	if l.keeper.replace() {
		l.keeper.announce()
	} else {
		l.group.kill()
		l.children.killAll()
		l.reap()
	}
	l.events.polls[fromGuard].Fd = int32(l.keeper.guard.Sock) // or -1
}
