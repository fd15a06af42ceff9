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
	"math"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/page"
)

// Most servers end by themselves in that time after a hang-up of stdin, or after a first signal. Then no
// brain is needed. The graces of a brain count from the event.
const (
	quietAfterHangUp = 100e6
	reactWithin      = 25e6
)

// After BrainReactsBy a brain is continued, and after another time it is replaced: it may have no processor.
const (
	continuedFor = 1e9
	startWithin  = 5e9
	deathsMost   = 3 // of brains, one after the other
)

const (
	pollLauncher = iota
	pollSignals
	pollBrain
	pollMain
	pollStdin // and the others of page.Page.ByGuard.Happened, in their order: see receiveEnd
	pollStdout
	pollClient
	pollInput // while the members are idle and there is no brain
	pollCount // a power of two
)

// begin is how every guard begins.
func (p *process) begin() {
	pid, _ := sys(unix.SYS_GETPID, 0, 0, 0, 0, 0)
	p.page.ByGuard.GuardPID = int32(pid)
	if p.joins {
		enter(p.cgroup)
	}
	clearTag()
	p.rename()
	if !p.replaces { // there is no server yet that could trace it
		lowerOwnScore()
	}
	if p.readable {
		sys(unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 1, 0, 0, 0)
	}
	p.leaveClient()
}

// guardMain is the whole life of the guard of a server.
func (p *serverGuard) guardMain() {
	p.begin()
	p.files = groupFiles{-1, -1, -1}
	p.watchClient()
	if p.replaces {
		p.takeOver()
	} else {
		p.awaitGroup()
	}
	p.watch()
}

// rename gives the guard a name and a command line without the server's.
func (p *process) rename() {
	sys(unix.SYS_PRCTL, unix.PR_SET_NAME, uintptr(unsafe.Pointer(&p.name)), 0, 0, 0)
	i := 0
	for at := p.hide[0]; at < p.hide[1]; at++ {
		c := byte(0)
		if p.role == roleGuard && i < len(p.name) {
			c = p.name[i]
		}
		**(**byte)(unsafe.Pointer(&at)) = c
		i++
	}
}

func enter(leaf int32) {
	if leaf >= 0 {
		writeFile(leaf, procsFile, '0')
	}
}

func (k *keepList) add(fd int32) {
	if fd >= 0 && k.count < mostKept {
		k.fds[k.count] = fd
		k.count++
	}
}

// leaveClient drops what the guard has of the client.
func (p *process) leaveClient() {
	sys(unix.SYS_SETSID, 0, 0, 0, 0, 0)
	p.keeps.closeOthers()
}

// closeOthers closes all descriptors but those of the list.
func (k *keepList) closeOthers() {
	last := int32(0)
	for from := int32(0); ; from = last + 1 { // a watcher has thousands between those that are kept
		last = k.next(from)
		if last > from {
			closeRange(from, last-1)
		}
		if last == math.MaxInt32 {
			return
		}
	}
}

// next is the first descriptor from that number on which the guard keeps, or MaxInt32.
func (k *keepList) next(from int32) int32 {
	next := int32(math.MaxInt32)
	for i := 0; i < k.count; i++ {
		if fd := k.fds[i&(mostKept-1)]; fd >= from {
			next = min(next, fd)
		}
	}
	return next
}

func closeRange(from, to int32) {
	_, e := sys(unix.SYS_CLOSE_RANGE, uintptr(from), uintptr(to), 0, 0, 0) // Linux 5.9
	if e == 0 {
		return
	}
	most := max(from, 4096) // seccomp refuses it
	for fd := from; fd <= min(to, most); fd++ {
		closeFD(fd)
	}
}

// watchClient has all descriptors polled but those that come later.
func (p *serverGuard) watchClient() {
	for i := range p.polls {
		p.polls[i] = unix.PollFd{Fd: -1, Events: unix.POLLIN}
	}
	p.polls[pollLauncher].Fd = p.launcherSock
	p.polls[pollSignals].Fd = p.signals
	p.watchEnd(pollStdin, page.StdinClosed, p.page.FD.Stdin)
	p.watchEnd(pollStdout, page.StdoutClosed, p.page.FD.Stdout)
	p.watchEnd(pollClient, page.ClientDied, p.page.FD.Client)
}

// watchEnd leaves out an event that the guard before has seen.
func (p *serverGuard) watchEnd(poll, event int, fd int32) {
	if p.page.ByGuard.Happened[event&7] == 0 {
		p.polls[poll&7].Fd = fd
	}
}

// takeOver is for a guard in the place of one that was killed. A brain of the guard before exits: another one
// goes on.
func (p *serverGuard) takeOver() {
	p.page.ByGuard.Generation++
	p.files.open(p.page.ByGuard.Payload)
	p.watchMain()
	p.enterScope()
	p.called.at = now() // also to record the death of the guard before
}

// enterScope moves the guard to the leaf beside the payload, in a scope where the manager has put the guard
// before. In a login session a user may not do that, but the manager may: a brain asks it.
func (p *serverGuard) enterScope() {
	if p.page.ByGuard.Payload < 0 {
		return
	}
	leaf, e := openAt(p.page.ByGuard.Payload, scopeLeaf, unix.O_DIRECTORY)
	if e != 0 {
		return // no manager has the group
	}
	p.page.ByGuard.Strayed = writeFile(leaf, procsFile, '0') != 0
	closeFD(leaf)
}

// awaitGroup receives the group, and the leaf where the guard is from then on or -1. If the launcher dies
// first, there is no server.
func (p *serverGuard) awaitGroup() {
	word, _ := p.receiveFrom(p.launcherSock, 0)
	if word != page.WordGo || p.received.truncated {
		p.removeDirectories()
		exit(0)
	}
	p.page.ByGuard.Payload = p.received.rights.fds[0]
	p.files.open(p.page.ByGuard.Payload)
	enter(p.received.rights.fds[1])
}

// poll waits for an event on p.polls, until limit if that is not 0.
func (p *process) poll(limit int64) (events uintptr, errno syscall.Errno) {
	ts := unix.Timespec{}
	timeout := uintptr(0)
	if limit != 0 {
		left := max(limit-now(), 0)
		ts = unix.Timespec{Sec: left / 1e9, Nsec: left % 1e9}
		timeout = uintptr(unsafe.Pointer(&ts))
	}
	return sys(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&p.polls)), uintptr(len(p.polls)), timeout, 0, 0)
}

// watch does not return.
func (p *serverGuard) watch() {
	p.heard = p.page.ByGuard.NewsRead
	for {
		p.watchInput()
		_, e := p.poll(p.deadline())
		if e == syscall.EINVAL { // RLIMIT_NOFILE was lowered
			p.leaveToLauncher()
		}
		if e != 0 { // EINTR, after it was stopped
			continue
		}
		if p.polls[pollLauncher].Revents != 0 {
			p.receiveLauncher()
		}
		if p.polls[pollSignals].Revents != 0 {
			p.receiveSignals()
		}
		for event := page.StdinClosed; event <= page.ClientDied; event++ {
			p.receiveEnd(event)
		}
		if p.polls[pollMain].Revents != 0 {
			closeFD(p.polls[pollMain].Fd)
			p.polls[pollMain].Fd = -1
			p.happened(page.MainExited)
		}
		if p.polls[pollInput].Revents != 0 {
			p.page.ByGuard.InputCame = true
			p.rouse()
		}
		if p.polls[pollBrain].Revents != 0 {
			p.receiveBrain()
		}
		p.react()
		p.confirmNews()
	}
}

// confirmNews has the launcher see that this guard has reacted. Before it has called the brain that it needs,
// it has not: a member may stop it again and again, and the launcher continues it until then.
func (p *serverGuard) confirmNews() {
	if p.called.at == 0 {
		p.page.ByGuard.NewsRead = p.heard
	}
}

// leaveToLauncher exits: the launcher replaces the guard. Without a launcher it ends the server.
func (p *serverGuard) leaveToLauncher() {
	if p.launcherLives() {
		exit(1)
	}
	p.endWithoutBrain()
}

// deadline is the next one, or 0.
func (p *serverGuard) deadline() int64 {
	limit := p.page.ByBrain.CallBrainAt
	if p.called.sock >= 0 {
		limit = p.page.ByBrain.BrainReactsBy
		if limit == p.called.dueSeen {
			limit = p.called.patience
		}
	}
	if p.called.at != 0 && (limit == 0 || p.called.at < limit) {
		limit = p.called.at
	}
	return limit
}

// happened writes the time of an event. A brain that there is reads it.
func (p *serverGuard) happened(event int) {
	p.page.ByGuard.Happened[event&7] = now()
	if event != page.LauncherDied { // whose members have to wait for the brain
		p.rouse()
	}
	if p.called.sock >= 0 { // otherwise callBrain does so
		p.continueLauncher()
	}
	p.tellBrain()
}

// watchInput polls the input of idle members. A brain that there is does so itself.
func (p *serverGuard) watchInput() {
	p.polls[pollInput].Fd = -1
	if p.idles() {
		p.polls[pollInput].Fd = p.page.FD.Input
	}
}

// idles reports whether the members are frozen since they are idle, and no brain looks after them.
func (p *serverGuard) idles() bool { return p.page.ByBrain.Phase == page.Idle && p.called.sock < 0 }

// rouse thaws idle members, which have to react to an event, and calls a brain.
func (p *serverGuard) rouse() {
	if p.idles() {
		p.thawIdle()
		p.callBy(now())
	}
}

// thawIdle leaves members frozen that a person has frozen.
func (p *serverGuard) thawIdle() {
	if p.page.ByGuard.Payload < 0 {
		return
	}
	p.page.ByGuard.Roused = true
	held := address("user.mcpscope.held\x00") // idle.AttrHeld
	if _, e := sys(unix.SYS_FGETXATTR, uintptr(p.page.ByGuard.Payload), held, 0, 0, 0); e != 0 {
		writeChar(p.files.freeze, '0')
	}
}

func (p *serverGuard) receiveEnd(event int) {
	poll := &p.polls[(pollStdin+event)&7]
	if poll.Revents != 0 {
		poll.Fd = -1
		poll.Revents = 0
		p.happened(event)
	}
}

// tellBrain announces news of the page. A member may have stopped the brain.
func (p *serverGuard) tellBrain() {
	if p.called.sock < 0 {
		return
	}
	if p.called.pid > 0 {
		signalChild(p.called.pid, unix.SIGCONT)
	}
	sendWord(p.called.sock, page.WordLook)
}

// sendWord sends a word.
func sendWord(sock int32, word byte) {
	g := page.Guard{Sock: int(sock)}
	g.SendWord(word)
}

func (p *serverGuard) receiveLauncher() {
	word, dead := p.receiveFrom(p.launcherSock, unix.MSG_DONTWAIT)
	switch {
	case dead:
		p.polls[pollLauncher].Fd = -1
		p.launcherDied()
	case word == page.WordDone:
		p.finish()
	case word == page.WordLook:
		p.heard = p.page.ByLauncher.News
		p.rouse() // a signal may have come
		p.watchMain()
		p.tellBrain()
	}
}

// watchMain polls the main process: a launcher that a member has stopped does not see its end.
func (p *serverGuard) watchMain() {
	watched := p.polls[pollMain].Fd >= 0 || p.page.ByGuard.Happened[page.MainExited] != 0
	if watched || p.page.ByLauncher.MainPID <= 0 || p.page.Exited() {
		return
	}
	fd, e := sys(unix.SYS_PIDFD_OPEN, uintptr(p.page.ByLauncher.MainPID), 0, 0, 0, 0)
	if e == 0 { // only polled: it may be another process's by now
		p.polls[pollMain].Fd = int32(fd)
	}
}

// deadWithin is the time for the pidfd of a launcher that is dead: a tracer may hold it for ever.
const deadWithin = 1e9

// launcherDied stops the members until a brain runs. Without a term grace it kills them (cgroup.kill, Linux
// 5.14). The socket is closed before children get their PR_SET_PDEATHSIG: a main process that is still on the
// way into the group is dead when the pidfd reports the end.
func (p *serverGuard) launcherDied() {
	own, _ := sys(unix.SYS_GETPID, 0, 0, 0, 0, 0)
	dead := p.page.FD.Launcher < 0
	for until := now() + deadWithin; !dead && now() < until; {
		dead = endedWithin(p.page.FD.Launcher, 10e6)
		if p.page.ByGuard.GuardPID != int32(own) { // the launcher did not find this guard, and forked another
			exit(0)
		}
	}
	if p.page.ByLauncher.Returned { // BrainEnds calls a brain
		return
	}
	hasStarted := p.page.ByLauncher.MainPID != 0
	hasEnded := p.page.Exited() && p.page.ByLauncher.Childless
	if !hasStarted || hasEnded { // nothing is left, or next to nothing
		p.killAll()
		p.removeDirectories()
		p.finish()
	}
	p.haltMembers()
	p.happened(page.LauncherDied)
}

func (p *serverGuard) haltMembers() {
	if p.page.ByGuard.Payload < 0 {
		return
	}
	if p.page.Order.TermGrace != 0 || writeChar(p.files.kill, '1') != 0 {
		writeChar(p.files.freeze, '1')
	}
}

// receiveFrom returns 0 for no word. The descriptors that come with it are in p.received.rights, and -1
// behind them. If not all of them could be received, it closes those that were.
func (p *process) receiveFrom(sock int32, how uintptr) (word byte, dead bool) {
	word, flags := receive(sock, &p.received.rights, how)
	p.received.truncated = flags&truncatedWord != 0
	for i := range p.received.rights.fds {
		if p.received.truncated && p.received.rights.fds[i] >= 0 {
			closeFD(p.received.rights.fds[i])
			p.received.rights.fds[i] = -1
		}
	}
	return word, flags&deadPeer != 0
}

// Flags that receive returns beside a word.
const (
	truncatedWord = 1 << iota // there was no room for the descriptors
	deadPeer
)

// receive reads a word with its descriptors, -1 behind them.
func receive(sock int32, r *rights, how uintptr) (word byte, flags uint32) {
	for i := range r.fds {
		r.fds[i] = -1
	}
	text := struct{ base, size uintptr }{uintptr(unsafe.Pointer(&word)), 1} // struct iovec
	header := page.MessageHeader{
		Texts: uintptr(unsafe.Pointer(&text)), TextCount: 1,
		Control: uintptr(unsafe.Pointer(r)), ControlSize: unsafe.Sizeof(*r),
	}
	at := uintptr(unsafe.Pointer(&header))
	n, e := sys(unix.SYS_RECVMSG, uintptr(sock), at, how|unix.MSG_CMSG_CLOEXEC, 0, 0)
	const written = 0xffffffff // behind the flags are four bytes that the kernel does not write
	if e == 0 && header.Flags&written&unix.MSG_CTRUNC != 0 {
		flags |= truncatedWord
	}
	if e != syscall.EAGAIN && e != syscall.EINTR && (e != 0 || n == 0) {
		flags |= deadPeer
	}
	return word, flags
}

// nextSignal returns 0 for none.
func (p *process) nextSignal() uint32 {
	at := uintptr(unsafe.Pointer(&p.info))
	size := unsafe.Sizeof(p.info)
	n, e := sys(unix.SYS_READ, uintptr(p.signals), at, size, 0, 0)
	if e != 0 || n != unsafe.Sizeof(p.info) {
		return 0
	}
	return uint32(p.info[0])
}

// signalChild signals by pid: only the parent reaps its children.
func signalChild(pid int32, sig unix.Signal) { sys(unix.SYS_KILL, uintptr(pid), uintptr(sig), 0, 0, 0) }

// receiveSignals reads SIGCHLD, and the request of a stop. All other signals mean nothing: some programs send
// them to whatever has no client above it.
func (p *serverGuard) receiveSignals() {
	for sig := p.nextSignal(); sig != 0; sig = p.nextSignal() {
		if sig == uint32(stopSignal) {
			p.happened(page.StopRequested)
		}
	}
	p.reapBrains()
}

// stopSignal is protocol.StopSignal.
const stopSignal = unix.SIGWINCH

// reapBrains waits for brains that have ended: the guard has no other children.
func (p *process) reapBrains() {
	for {
		pid, e := sys(unix.SYS_WAIT4, ^uintptr(0), 0, unix.WNOHANG|unix.WALL, 0, 0)
		if e != 0 || pid == 0 {
			return
		}
		if int32(pid) == p.called.pid {
			p.called.pid = 0
		}
	}
}

// finish ends the guard when nothing is left, with the brain that there may be.
func (p *serverGuard) finish() {
	if !p.page.ByBrain.Sweeping {
		p.killBrain(1000)
	}
	p.page.ByGuard.Over = true
	p.continueLauncher()
	exit(0)
}

// continueLauncher continues a launcher that a member has stopped.
func (p *serverGuard) continueLauncher() {
	p.page.ByGuard.Continues++
	sys(unix.SYS_PIDFD_SEND_SIGNAL, uintptr(p.page.FD.Launcher), uintptr(unix.SIGCONT), 0, 0, 0)
}

// removeDirectories leaves to a sweep what members have made below them.
func (p *serverGuard) removeDirectories() {
	enter(p.page.FD.Leaf) // it may be in one of them
	d := directories{page: p.page}
	for dir := d.next(); dir != 0; dir = d.next() {
		const tries = 100 // 100 ms
		removeDirectory(p.page.FD.Parent, dir, tries)
	}
}
