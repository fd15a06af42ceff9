// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

// Package guard starts a server below a guard: a raw copy of the launcher that is the parent of the main
// process and a subreaper, outlives the launcher, and starts another brain when the launcher is dead.
//
//	launcher ──▶ a process between, which exits at once
//	   │ page and socket └─▶ guard, in guards/, outside every process tree
//	   │                       └─▶ main process, in the payload
//
// The guard executes nothing and decides nothing. It reaps children, writes what happens to the page, and
// waits. Everything that it runs is in this package, and is system calls alone: no heap, no Go runtime, no
// writable global variable. A build with -race can't run servers: the guard has no race detector.
package guard

import (
	"math"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/page"
)

// The time that a brain has for an answer until it gets a SIGCONT, and then for all else: it may have no
// processor. A later brain has the second one to start, too.
const (
	continueAfter = 250e6
	startWithin   = 5e9
)

// guardMain is the guard's whole life.
//
//lint:ignore U1000 forkOn calls it
func guardMain(p *process) {
	if p.joins {
		enter(p.page.Leaf)
	}
	sys(unix.SYS_PRCTL, unix.PR_SET_NAME, uintptr(unsafe.Pointer(&p.name)), 0, 0, 0)
	p.holdBrainEnd()
	if p.main.argv == 0 { // another guard of this watcher would not see its death
		p.leaveClient()
	}
	if p.gate.Wanted {
		p.keepGate()
	}
	// Members that leave the group, and whose parents are dead, become the guard's children.
	sys(unix.SYS_PRCTL, unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	p.children, _ = openAt(unix.AT_FDCWD, childrenFile, 0)
	p.alsoKeep(p.children)
	leaf, ok := p.awaitGo()
	if !ok {
		p.removeDirectories()
		exit(0)
	}
	p.startMain()
	p.leaveClient()
	enter(leaf)
	p.send()
	p.watch()
}

func enter(leaf int32) {
	if leaf >= 0 {
		writeFile(leaf, procsFile, '0')
	}
}

// holdBrainEnd closes the guard's copy of the brain's end, which would hide the brain's death. The number
// stays taken: a later brain's command line has it.
func (p *process) holdBrainEnd() {
	sys(unix.SYS_DUP3, uintptr(p.signals), uintptr(p.brainEnd), unix.O_CLOEXEC, 0, 0)
}

func (p *process) alsoKeep(fd int32) {
	if fd >= 0 && p.kept < mostKept {
		p.keep[p.kept] = fd
		p.kept++
	}
}

// awaitGo receives the group, and the leaf where the guard is from now on or -1. It fails if the launcher
// dies first.
func (p *process) awaitGo() (leaf int32, ok bool) {
	word, _ := p.receiveWord(0)
	for word == page.WordKeep || word == page.WordDrop { // the servers of the guard before
		p.receiveServer(word)
		word, _ = p.receiveWord(0)
	}
	if p.truncated { // no descriptor was free: the server would be born outside of its group
		p.page.FailedStep, p.page.Errno = page.StepFork, uint32(syscall.EMFILE)
		p.send()
		return -1, false
	}
	p.page.Payload, leaf = p.rights.fds[0], p.rights.fds[1]
	p.alsoKeep(p.page.Payload)
	p.alsoKeep(leaf)
	return leaf, word == page.WordGo
}

// leaveClient drops what the guard has of the client. It is after the birth of a server, which stays in the
// client's session, and has its descriptors.
func (p *process) leaveClient() {
	sys(unix.SYS_SETSID, 0, 0, 0, 0, 0)
	last := int32(0)
	for from := int32(0); ; from = last + 1 { // a watcher has thousands between those that are kept
		last = p.nextKept(from)
		if last > from {
			closeRange(from, last-1)
		}
		if last == math.MaxInt32 {
			return
		}
	}
}

// nextKept is the first descriptor from that number on which the guard keeps, or MaxInt32.
func (p *process) nextKept(from int32) int32 {
	next := int32(math.MaxInt32)
	for i := 0; i < p.kept; i++ {
		if fd := p.keep[i&(mostKept-1)]; fd >= from {
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

// poll waits for an event on p.polls, until limit if that is not 0.
func (p *process) poll(limit int64) (events uintptr, errno syscall.Errno) {
	ts, timeout := unix.Timespec{}, uintptr(0)
	if limit != 0 {
		left := max(limit-now(), 0)
		ts = unix.Timespec{Sec: left / 1e9, Nsec: left % 1e9}
		timeout = uintptr(unsafe.Pointer(&ts))
	}
	return sys(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&p.polls)), uintptr(len(p.polls)), timeout, 0, 0)
}

// watch does not return.
func (p *process) watch() {
	for {
		limit := p.answerBy
		if due := p.page.Due; limit == 0 && due != p.dueAsked {
			limit = due
		}
		n, e := p.poll(limit)
		if e == syscall.EINVAL { // RLIMIT_NOFILE was lowered: the launcher notices a dead guard
			exit(1)
		}
		if e != 0 { // EINTR, after it was stopped
			continue
		}
		if n == 0 {
			p.overdue()
			continue
		}
		if p.polls[1].Revents != 0 {
			p.receiveSignals()
		}
		for i := 2; i < len(p.polls); i++ { // stdin, stdout, client
			if p.polls[i].Revents != 0 {
				p.polls[i].Fd = -1 // each asks once: the brain may know a reason why it stops nothing
				p.announce()
			}
		}
		if p.polls[0].Revents != 0 {
			p.receive()
		}
	}
}

func (p *process) send() {
	word := [1]byte{page.WordLook}
	const how = unix.MSG_DONTWAIT | unix.MSG_NOSIGNAL
	sys(unix.SYS_SENDTO, uintptr(p.sock), uintptr(unsafe.Pointer(&word)), 1, how, 0)
}

// ask wants a sign of life from the brain, after an event that it should have noticed as well.
func (p *process) ask() {
	if p.answerBy == 0 {
		p.page.Asked++
		p.answerBy, p.continued = now()+continueAfter, false
	}
	p.send()
}

// announce is for an event. A brain that stops the server already has until Page.Due, and may have no time
// for an answer.
func (p *process) announce() {
	if p.page.Phase > page.Running {
		p.send()
		return
	}
	p.ask()
}

// overdue is after the time that a brain has for an answer, or for all it does. A brain that answers may take
// longer.
func (p *process) overdue() {
	switch {
	case p.answerBy == 0:
		p.dueAsked = p.page.Due
		p.ask()
	case p.page.Answered == p.page.Asked:
		p.answerBy = 0
	case !p.continued:
		if p.page.Reign == 0 {
			sys(unix.SYS_PIDFD_SEND_SIGNAL, uintptr(p.page.Launcher), uintptr(unix.SIGCONT), 0, 0, 0)
		} else {
			signalChild(p.brainPID, unix.SIGCONT)
		}
		p.answerBy, p.continued = now()+startWithin, true
	default:
		p.takeOver(false)
	}
}

func (p *process) receive() {
	word, dead := p.receiveWord(unix.MSG_DONTWAIT)
	switch {
	case dead:
		p.takeOver(true)
	case word == page.WordDone:
		exit(0)
	case word == page.WordLook:
		if p.page.Answered == p.page.Asked {
			p.answerBy = 0
		}
	case word >= page.WordForward && p.mainPID > 0 && !p.exited:
		signalChild(p.mainPID, unix.Signal(word-page.WordForward))
	}
}

// receiveWord returns 0 for none. The descriptors that come with it are in p.rights, and -1 behind them. If
// not all of them could be received, it closes those that were.
func (p *process) receiveWord(how uintptr) (word byte, dead bool) {
	for i := range p.rights.fds {
		p.rights.fds[i] = -1
	}
	text := struct{ base, size uintptr }{uintptr(unsafe.Pointer(&word)), 1} // struct iovec
	header := page.MessageHeader{
		Texts: uintptr(unsafe.Pointer(&text)), TextCount: 1,
		Control: uintptr(unsafe.Pointer(&p.rights)), ControlSize: unsafe.Sizeof(p.rights),
	}
	at := uintptr(unsafe.Pointer(&header))
	n, e := sys(unix.SYS_RECVMSG, uintptr(p.sock), at, how|unix.MSG_CMSG_CLOEXEC, 0, 0)
	const flags = 0xffffffff // behind them are four bytes that the kernel does not write
	p.truncated = e == 0 && header.Flags&flags&unix.MSG_CTRUNC != 0
	for i := range p.rights.fds {
		if p.truncated && p.rights.fds[i] >= 0 {
			closeFD(p.rights.fds[i])
			p.rights.fds[i] = -1
		}
	}
	return word, e != syscall.EAGAIN && (e != 0 || n == 0)
}

// nextSignal returns 0 for none.
func (p *process) nextSignal() uint32 {
	at, size := uintptr(unsafe.Pointer(&p.info)), unsafe.Sizeof(p.info)
	n, e := sys(unix.SYS_READ, uintptr(p.signals), at, size, 0, 0)
	if e != 0 || n != unsafe.Sizeof(p.info) {
		return 0
	}
	return uint32(p.info[0])
}

// signalChild signals by pid: only the guard reaps its children.
func signalChild(pid int32, sig unix.Signal) { sys(unix.SYS_KILL, uintptr(pid), uintptr(sig), 0, 0, 0) }

// receiveSignals reads SIGCHLD, and those that ask for a stop.
func (p *process) receiveSignals() {
	requested := false
	for sig := p.nextSignal(); sig != 0; sig = p.nextSignal() {
		if sig != uint32(unix.SIGCHLD) {
			p.page.Requests |= 1 << (sig - 1)
			requested = true
		}
	}
	if p.reap() {
		p.send()
	}
	if requested {
		p.announce()
	}
}

// reap waits for all children that have ended. changed: the page has news of the main process.
func (p *process) reap() (changed bool) {
	for {
		const everyChild, options = ^uintptr(0), unix.WNOHANG | unix.WUNTRACED | unix.WALL
		status := uint32(0)
		pid, e := sys(unix.SYS_WAIT4, everyChild, uintptr(unsafe.Pointer(&status)), options, 0, 0)
		p.childless = e == syscall.ECHILD
		p.page.Childless = p.childless
		if e != 0 || pid == 0 {
			return changed
		}
		if int32(pid) != p.mainPID || p.exited {
			continue
		}
		changed = true
		if status&0xff == 0x7f { // it was stopped
			p.page.StopSignal = status >> 8
			p.page.Stops++
			continue
		}
		p.page.Status = status
		p.exited, p.page.Exited = true, true
	}
}
