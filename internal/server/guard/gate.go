// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package guard

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/page"
)

// Gate makes the guard that of a gateway. Its brains are watchers, which answer what a filter holds and
// decide about all servers. The process that has forked it executes the gateway: the guard answers that
// call, so that the gateway need not wait for a watcher, and starts the first one then.
type Gate struct {
	// Wanted: it is one of a gateway.
	Wanted bool
	// Require answers nothing without a watcher.
	Require bool
	// Start is for a gateway that needs its watcher at once, or runs already.
	Start bool

	stage    bool  // only the process that has forked the guard has the filter
	ready    bool  // a watcher answers
	over     bool  // no watcher is needed any more
	resolved bool  // Page.Held is answered
	servers  int   // that are kept
	startAt  int64 // of the next watcher, or 0
}

// A gateway needs no watcher to run. So after some time without a watcher the guard answers.
const (
	firstWithin = 10e9
	nextWithin  = 1e9
	pause       = 1e9 // after a watcher that has ended before it was ready
)

// Of the descriptors that a guard polls, the socket is that of the process which executes the gateway or,
// later, of a watcher.
const (
	gateSocket   = pollBrain
	gateSignals  = pollSignals
	gateListener = pollMain
)

// keepGate is the whole life of the guard of a gateway.
func (p *gateGuard) keepGate() {
	p.begin()
	raiseFileLimit()
	g := &p.gate
	action := [4]uint64{} // SIG_DFL: an ignored SIGCHLD would hide that a watcher is stopped
	sys(unix.SYS_RT_SIGACTION, uintptr(unix.SIGCHLD), uintptr(unsafe.Pointer(&action)), 0, 8, 0)
	for fd := uintptr(0); fd <= 2; fd++ { // a watcher's are not to be those of a server
		sys(unix.SYS_DUP3, uintptr(p.signals), fd, unix.O_CLOEXEC, 0, 0)
	}
	p.called.sock = p.launcherSock
	for i := range p.polls {
		p.polls[i] = unix.PollFd{Fd: -1, Events: unix.POLLIN}
	}
	p.polls[gateSocket].Fd = p.called.sock
	p.polls[gateSignals].Fd = p.signals
	p.awaitListener()
	p.polls[gateListener].Fd = p.page.Gateway.Listener
	g.stage = !g.Start
	if g.Start {
		g.startAt = now()
		p.waitWithin(nextWithin)
	}
	for {
		if g.startAt != 0 && now() >= g.startAt {
			g.startAt = 0
			closeFD(p.called.sock) // that of the process which has forked this guard, or -1
			p.called.sock = -1
			p.polls[gateSocket].Fd = -1
			if !p.startBrain() {
				p.watcherDied()
			}
		}
		p.awaitGate()
	}
}

// awaitListener receives the servers that the guard before had, and then the listener.
func (p *gateGuard) awaitListener() {
	for {
		word, _ := p.receiveFrom(p.called.sock, 0)
		switch word {
		case page.WordKeep, page.WordDrop:
			p.receiveServer(word)
		case page.WordGo:
			if p.received.truncated { // the filter has no listener, so nothing is executed any more
				exit(1)
			}
			p.page.Gateway.Listener = p.received.rights.fds[0]
			return
		default:
			exit(0)
		}
	}
}

// awaitGate waits for one event, and reacts.
func (p *gateGuard) awaitGate() {
	g := &p.gate
	limit := g.startAt
	answers := g.stage || g.over || !g.ready && !g.Require && now() >= p.page.Gateway.AnswerAt
	p.polls[gateListener].Events = 0 // to poll for more would wake the guard at each execve
	switch {
	case answers:
		p.polls[gateListener].Events = unix.POLLIN
		p.resolve()
	case !g.ready && !g.Require && (limit == 0 || p.page.Gateway.AnswerAt < limit):
		limit = p.page.Gateway.AnswerAt
	}
	n, e := p.poll(limit)
	if e != 0 || n == 0 {
		return
	}
	if p.polls[gateSignals].Revents != 0 {
		p.continueWatcher()
	}
	switch happened := p.polls[gateListener].Revents; {
	case p.polls[gateSocket].Revents != 0: // first: a watcher may have to answer what is held
		p.receiveFromWatcher()
	case happened&unix.POLLIN != 0:
		p.answerOne()
	case happened != 0: // no process has the filter any more
		p.polls[gateListener].Fd = -1
	}
	if p.polls[gateListener].Fd < 0 && p.polls[gateSocket].Fd < 0 && g.startAt == 0 {
		exit(0)
	}
}

func (p *gateGuard) receiveFromWatcher() {
	g := &p.gate
	word, dead := p.receiveFrom(p.called.sock, unix.MSG_DONTWAIT)
	switch {
	case word == page.WordKeep || word == page.WordDrop:
		p.receiveServer(word)
	case word == page.WordReady:
		g.ready = true
		g.resolved = false
		p.page.Gateway.AnswerAt = 0
		p.called.deaths = 0
	case word == page.WordDone:
		g.over = true
	case dead:
		closeFD(p.called.sock)
		p.called.sock = -1
		p.polls[gateSocket].Fd = -1
		p.watcherDied()
	}
}

// watcherDied has the next watcher started, if one is needed.
func (p *gateGuard) watcherDied() {
	g := &p.gate
	switch {
	case g.over || p.polls[gateListener].Fd < 0 && g.servers == 0:
	case g.stage: // it executes the gateway
		g.startAt = now()
		p.waitWithin(firstWithin)
	case g.ready:
		g.startAt = now()
		p.waitWithin(nextWithin)
	default:
		if p.called.deaths++; p.called.deaths > 2 {
			p.giveUp()
		}
		g.startAt = now() + pause
	}
	g.stage = false
	g.ready = false
}

// raiseFileLimit raises the soft limit of guard and watchers, which have descriptors for each server. It is
// the gateway's own process that executes the gateway, and that keeps its limit.
func raiseFileLimit() {
	limit := unix.Rlimit{}
	at := uintptr(unsafe.Pointer(&limit))
	sys(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_NOFILE, 0, at, 0)
	limit.Cur = limit.Max
	sys(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_NOFILE, at, 0, 0)
}

// receiveServer receives the rest of a message, and answers it: a watcher puts a server into a group only
// when the next watcher will know of it.
func (p *gateGuard) receiveServer(word byte) {
	m := page.Message{Word: word}
	const rest = page.MessageSize - 1 // it was sent whole
	sys(unix.SYS_RECVFROM, uintptr(p.called.sock), uintptr(unsafe.Pointer(&m))+1, rest, unix.MSG_WAITALL, 0)
	e := syscall.Errno(0)
	switch {
	case p.received.truncated:
		e = syscall.EMFILE
	case word == page.WordDrop:
		e = p.keepServer(m.Number, page.Kept{})
	default:
		fds := &p.received.rights.fds
		kept := page.Kept{Payload: fds[0], Memory: fds[1], Stdin: -1, Stdout: -1}
		switch {
		case m.HasStdin && m.HasStdout:
			kept.Stdin = fds[2]
			kept.Stdout = fds[3]
		case m.HasStdin:
			kept.Stdin = fds[2]
		case m.HasStdout:
			kept.Stdout = fds[2]
		}
		if e = p.keepServer(m.Number, kept); e != 0 {
			closeKept(kept)
		}
	}
	sendWord(p.called.sock, byte(e)) // the watcher waits for it, so there is room
}

// keepServer keeps the descriptors of a server in the place of those that had its number. Descriptors 0 to 2
// are never among them: see keepGate.
func (p *gateGuard) keepServer(number uint32, kept page.Kept) syscall.Errno {
	before, _ := serverKept(p.page, number)
	at := uintptr(unsafe.Pointer(&kept))
	size := unsafe.Sizeof(kept)
	n, e := sys(unix.SYS_PWRITE64, uintptr(p.page.Memory), at, size, uintptr(p.page.KeptAt(number)), 0)
	switch {
	case e != 0:
		return e
	case n != size:
		return syscall.ENOSPC
	}
	if before.Payload != 0 {
		p.gate.servers--
		closeKept(before)
	}
	if kept.Payload != 0 {
		p.gate.servers++
	}
	return 0
}

// serverKept returns the descriptors under a number: zero for none. ok: it is not behind the last one.
func serverKept(on *page.Page, number uint32) (kept page.Kept, ok bool) {
	at := uintptr(unsafe.Pointer(&kept))
	size := unsafe.Sizeof(kept)
	n, e := sys(unix.SYS_PREAD64, uintptr(on.Memory), at, size, uintptr(on.KeptAt(number)), 0)
	return kept, e == 0 && n == size
}

func closeKept(k page.Kept) {
	closeFD(k.Payload)
	closeFD(k.Memory)
	if k.Stdin >= 0 {
		closeFD(k.Stdin)
	}
	if k.Stdout >= 0 {
		closeFD(k.Stdout)
	}
}

// passServers has the watcher that this process executes inherit what is kept.
func passServers(on *page.Page) {
	passOn(on.Gateway.Listener)
	for number := uint32(0); ; number++ {
		k, ok := serverKept(on, number)
		if !ok {
			return
		}
		if k.Payload != 0 {
			passOn(k.Payload)
			passOn(k.Memory)
			passOn(k.Stdin)
			passOn(k.Stdout)
		}
	}
}

// giveUp kills all servers if the gateway has ended and no watcher can start, perhaps for lack of processes.
func (p *gateGuard) giveUp() {
	client := unix.PollFd{Fd: p.page.FD.Client, Events: unix.POLLIN}
	none := unix.Timespec{}
	at := uintptr(unsafe.Pointer(&client))
	now := uintptr(unsafe.Pointer(&none))
	if n, _ := sys(unix.SYS_PPOLL, at, 1, now, 0, 0); n == 0 {
		return
	}
	for number := uint32(0); ; number++ {
		kept, ok := serverKept(p.page, number)
		if !ok {
			break
		}
		if kept.Payload != 0 {
			writeFile(kept.Payload, killFile, '1')
		}
	}
	if p.polls[gateListener].Fd < 0 { // no process is left
		exit(1)
	}
}

// waitWithin is the time that programs wait for a watcher. It goes on while guards are killed.
func (p *gateGuard) waitWithin(time int64) {
	if p.page.Gateway.AnswerAt == 0 {
		p.page.Gateway.AnswerAt = now() + time
	}
}

// continueWatcher is for SIGCHLD: each program that is executed would wait for a watcher that is stopped.
func (p *gateGuard) continueWatcher() {
	for p.nextSignal() != 0 {
	}
	p.reapBrains()
	if p.called.pid > 0 {
		signalChild(p.called.pid, unix.SIGCONT)
	}
}

// resolve answers what a dead watcher has received.
func (p *gateGuard) resolve() {
	if p.gate.resolved {
		return
	}
	p.gate.resolved = true
	all := &p.page.Gateway.Held
	for i := 0; i < len(all); i++ {
		if id := all[i][0]; id != 0 {
			p.letGoOn(id)
		}
	}
}

func (p *gateGuard) answerOne() {
	request := [10]uint64{} // the kernel insists
	if p.control(unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&request)) == 0 {
		p.letGoOn(request[0])
	}
}

func (p *gateGuard) letGoOn(id uint64) {
	answer := [3]uint64{id, 0, unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE << 32} // struct seccomp_notif_resp
	p.control(unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&answer))
}

func (p *gateGuard) control(request uintptr, argument unsafe.Pointer) syscall.Errno {
	_, e := sys(unix.SYS_IOCTL, uintptr(p.page.Gateway.Listener), request, uintptr(argument), 0, 0)
	return e
}
