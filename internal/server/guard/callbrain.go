// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package guard

import (
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/page"
)

// react starts a brain when one is needed, and replaces one that does not react.
func (p *serverGuard) react() {
	at := now()
	switch {
	case p.called.sock >= 0:
		p.checkBrain(at)
		return
	case p.page.Pending():
		p.callBy(p.neededBy())
	}
	if wake := p.page.ByBrain.CallBrainAt; wake != 0 && at >= wake {
		p.callBy(at)
	}
	if p.called.at != 0 && at >= p.called.at {
		p.callBrain()
	}
}

func (p *serverGuard) callBy(at int64) {
	if p.called.at == 0 || at < p.called.at {
		p.called.at = at
	}
}

// neededBy is when a brain is needed for the events on the page.
func (p *serverGuard) neededBy() int64 {
	l := &p.page.ByLauncher
	first := int64(math63)
	if l.SignalsGot != p.page.ByBrain.SignalsRead {
		first = now()
		if l.SignalsGot == 1 {
			first = l.Signals[0].At + reactWithin
		}
	}
	if l.BrainEnds && p.page.ByBrain.Handled&page.HandledEnd == 0 {
		first = now()
	}
	for event := range page.Events {
		at := p.page.ByGuard.Happened[event]
		if at == 0 || p.page.ByBrain.Handled&(1<<event) != 0 {
			continue
		}
		switch event {
		case page.StdinClosed, page.StdoutClosed, page.MainExited: // the launcher sees the last one, too
			at += quietAfterHangUp
		}
		first = min(first, at)
	}
	return first
}

const math63 = 1<<63 - 1

// callBrain starts a brain. A member may have stopped the launcher, which has to see the end of the server.
func (p *serverGuard) callBrain() {
	p.called.at = 0
	p.watchMain()         // the launcher may have been stopped before it could send a word
	if p.page.Pending() { // not to settle a start: a SIGCONT of the client may come at the same time
		p.continueLauncher()
	}
	switch {
	case p.launcherEnds():
		p.page.ByBrain.CallBrainAt = 0
		p.callBy(now() + quietAfterHangUp)
	case p.postponeSettling():
	case p.startBrain():
	case p.page.Pending() || p.page.ByBrain.Phase > page.Idle:
		p.endWithoutBrain()
	default: // nothing that the server's end depends on
		if p.page.ByBrain.Phase == page.Idle {
			p.thawIdle()
			p.page.ByBrain.Phase = page.Running
		}
		p.page.ByBrain.CallBrainAt = now() + tryAgainAfter
	}
}

// launcherEnds reports whether the launcher removes the group: a brain could only quit. If something
// keeps the group, the launcher calls one.
func (p *serverGuard) launcherEnds() bool {
	claimed := atomic.LoadUint32(&p.page.ByBrain.Ender) == page.EndedByLauncher
	return claimed && p.polls[pollLauncher].Fd >= 0
}

// tryAgainAfter is for a brain that could not be started, and is not needed yet.
const tryAgainAfter = 1e9

// startBrain starts one, with a socket of its own.
func (p *process) startBrain() bool {
	var ends [2]int32
	if socketPair(&ends) != 0 {
		return false
	}
	p.page.ByGuard.Generation++
	p.called.sock = ends[0]
	p.called.end = ends[1]
	at := p.args & (argumentsMost - 1)
	p.argv[at] = decimal(&p.called.digits[0], int(p.page.Memory))
	p.argv[(at+1)&(argumentsMost-1)] = decimal(&p.called.digits[1], int(p.called.end))
	p.page.ByBrain.BrainReactsBy = now() + startWithin
	p.called.dueSeen = 0
	p.called.patience = 0
	pid := p.spawnBrain()
	closeFD(p.called.end)
	if pid < 0 {
		closeFD(p.called.sock)
		p.called.sock = -1
		return false
	}
	p.called.pid = int32(pid)
	p.polls[pollBrain].Fd = p.called.sock
	p.polls[pollBrain].Revents = 0
	return true
}

// spawnBrain starts a brain in the leaf of guards, which is that of the scope where there is no other. The
// guard may be elsewhere: a brain in the group of the members would freeze itself.
func (p *process) spawnBrain() (pid int) {
	leaf := p.page.FD.Leaf
	if leaf < 0 && p.page.ByGuard.Payload >= 0 {
		// -1 where no manager has the group
		leaf, _ = openAt(p.page.ByGuard.Payload, scopeLeaf, unix.O_DIRECTORY)
	}
	pid = p.spawnIn(leaf)
	if pid < 0 && leaf >= 0 { // a member may have removed it, or have made it one that takes no process
		pid = p.spawnIn(-1)
	}
	if leaf != p.page.FD.Leaf {
		closeFD(leaf)
	}
	return pid
}

// spawnIn starts a brain in a cgroup, or in the guard's (-1). It borrows the guard's memory until its exec.
// The guard's signals are all blocked and have no handlers.
func (p *process) spawnIn(leaf int32) (pid int) {
	if p.joins {
		pid = vfork(unix.SYS_CLONE, vforkFlags|uintptr(unix.SIGCHLD), 0)
	} else {
		p.clone = cloneArgs{flags: vforkFlags, exitSignal: uint64(unix.SIGCHLD)}
		if leaf >= 0 {
			p.clone.flags |= unix.CLONE_INTO_CGROUP
			p.clone.cgroup = uint64(leaf)
		}
		pid = vfork(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&p.clone)), unsafe.Sizeof(p.clone))
	}
	if pid == 0 {
		if p.joins {
			enter(leaf)
		}
		p.executeBrain()
	}
	return pid
}

// executeBrain is the brain's process until its exec.
func (p *process) executeBrain() {
	for i := 0; i < p.keeps.shared; i++ {
		passOn(p.keeps.fds[i&(mostKept-1)])
	}
	passOn(p.page.ByGuard.Payload)
	passOn(p.called.end)
	if p.role == roleGate {
		passServers(p.page)
	}
	none := uint64(0)
	setMask(&none, nil)
	// The descriptor is of the file that the launcher runs, even if the file is deleted or replaced by now.
	argv := uintptr(unsafe.Pointer(&p.argv))
	executeProgram(p.page.FD.Program, argv, p.env)
	exit(125)
}

// passOn has the program that this process executes inherit the descriptor.
func passOn(fd int32) {
	if fd >= 0 {
		sys(unix.SYS_FCNTL, uintptr(fd), unix.F_SETFD, 0, 0, 0)
	}
}

func (p *serverGuard) receiveBrain() {
	word, dead := p.receiveFrom(p.called.sock, unix.MSG_DONTWAIT)
	switch {
	case word == page.WordDone:
		p.finish()
	case word == page.WordRest:
		p.forgetBrain()
		p.called.deaths = 0
		if p.page.ByBrain.Phase == page.Idle {
			sendWord(p.launcherSock, page.WordLook) // it polls the input as well
		}
	case dead:
		p.forgetBrain()
		p.brainDied()
	case word == page.WordLook && p.page.ByBrain.Stuck:
		sendWord(p.launcherSock, page.WordLook)
	}
}

// forgetBrain is for a brain that ends.
func (p *serverGuard) forgetBrain() {
	p.killBrain(20)
	closeFD(p.called.sock)
	p.called.sock = -1
	p.polls[pollBrain].Fd = -1
}

// killBrain kills the brain, and reaps it if it ends in so many milliseconds: a member may trace it.
func (p *process) killBrain(within int) {
	if p.called.pid <= 0 {
		return
	}
	signalChild(p.called.pid, unix.SIGKILL) // it may be stopped
	for try := 0; try < within*10; try++ {
		pid, e := sys(unix.SYS_WAIT4, uintptr(p.called.pid), 0, unix.WNOHANG, 0, 0)
		if e != 0 || pid != 0 {
			break
		}
		sleep(100e3) // SIGCHLD is not polled here
	}
	p.called.pid = 0
}

// stopping reports whether there is a stop, so that the members need not run while no brain does.
func (p *serverGuard) stopping() bool {
	return p.page.ByBrain.Phase >= page.Terminating || p.page.ByGuard.Happened[page.LauncherDied] != 0
}

// brainDied calls the next brain. One after another may die for the same reason: then the guard ends the
// server, and does without a report.
func (p *serverGuard) brainDied() {
	p.called.deaths++
	if p.called.deaths >= deathsMost && !p.stopping() && !p.page.Pending() {
		p.page.ByBrain.CallBrainAt = 0 // nothing that concerns the server
		p.called.deaths = 0
		p.thawIdle() // which one of them may have frozen
		return
	}
	switch {
	case p.called.deaths >= deathsMost:
		p.endWithoutBrain()
	case p.stopping():
		p.haltMembers()
	}
	p.callBy(now())
}

// checkBrain replaces a brain that has changed nothing by BrainReactsBy.
func (p *serverGuard) checkBrain(at int64) {
	due := p.page.ByBrain.BrainReactsBy
	switch {
	case due == 0 || at < due:
	case due != p.called.dueSeen:
		p.called.dueSeen = due
		p.called.patience = at + continuedFor
		p.tellBrain()
	case at >= p.called.patience:
		p.forgetBrain()
		p.brainDied()
	}
}

// endWithoutBrain ends a server where no brain can start, for lack of processes or memory. It does not
// return.
func (p *serverGuard) endWithoutBrain() {
	if p.launcherLives() && p.page.ByBrain.Phase < page.Terminating {
		writeChar(p.files.freeze, '0') // a person may have frozen the members, which get the graces to end
		p.awaitOwnEnd()
		if p.page.ByLauncher.SignalsGot == 0 { // otherwise the main process has got one from the client
			sendWord(p.launcherSock, page.WordTerminate)
		}
		p.awaitEnd(now(), p.page.Order.TermGrace, true)
	}
	p.killAll()
	if p.launcherLives() { // members that left the group descend from it
		sendWord(p.launcherSock, page.WordKill)
		p.awaitLauncher()
	}
	if !p.launcherLives() { // it may have died meanwhile
		p.killTagged()
	}
	p.removeDirectories()
	p.finish()
}

func (p *serverGuard) launcherLives() bool {
	return p.polls[pollLauncher].Fd >= 0 && !endedWithin(p.page.FD.Launcher, 0)
}

// awaitOwnEnd gives a server the EOF grace, if the client has closed stdin or stdout and nothing else has
// happened.
func (p *serverGuard) awaitOwnEnd() {
	happened := &p.page.ByGuard.Happened
	since := happened[page.StdinClosed]
	if since == 0 {
		since = happened[page.StdoutClosed]
	}
	other := happened[page.ClientDied] | happened[page.MainExited] | happened[page.StopRequested]
	if since != 0 && other == 0 {
		p.awaitEnd(since, p.page.Order.EOFGrace, false)
	}
}

// awaitEnd waits until no member is left, the launcher is dead, or the grace is over; a negative one is not.
// A signal to the launcher ends the wait as well, or a repeated one if the server was asked to end before.
func (p *serverGuard) awaitEnd(since, grace int64, asked bool) {
	for grace < 0 || now() < since+grace {
		p.page.ByGuard.NewsRead = p.page.ByLauncher.News // the launcher replaces a guard that does not react
		ended := p.page.Exited() && p.page.ByLauncher.Childless && !p.populated()
		signalled := p.page.IsRepeated() || !asked && p.page.ByLauncher.SignalsGot > 0
		if ended || signalled {
			return
		}
		if endedWithin(p.page.FD.Launcher, 5e6) { // no event says that the last member has ended
			return
		}
	}
}

// awaitLauncher waits until the launcher has killed its children, or is dead.
func (p *serverGuard) awaitLauncher() {
	for round := 0; round < 5000 && !p.page.ByLauncher.Childless; round++ {
		if endedWithin(p.page.FD.Launcher, 2e6) { // no event says that all have ended
			return
		}
	}
}

// killAll is a stop without a grace. Before Linux 5.14 the members are frozen, and their launcher kills them
// or, after its death, a sweep.
func (p *serverGuard) killAll() {
	for round := int64(1); p.page.ByGuard.Payload >= 0 && round < 5000; round++ {
		if writeChar(p.files.kill, '1') != 0 {
			writeChar(p.files.freeze, '1')
			return
		}
		if !p.populated() {
			return
		}
		sleep(min(round*50e3, 2e6)) // no event says that a killed process has ended
	}
}

func (p *serverGuard) populated() bool {
	return p.page.ByGuard.Payload >= 0 && p.files.populated(&p.buf)
}
