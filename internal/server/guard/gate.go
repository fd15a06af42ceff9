// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package guard

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/page"
)

// Gate makes the guard that of a gateway. It has no main process. Its brains are watchers, which answer what
// a filter holds and decide about all servers; the listener is in the place of Page.Payload. The process that
// has forked it executes the gateway: the guard answers that call, so that the gateway need not wait for a
// watcher, and starts the first one then.
type Gate struct {
	// Wanted: it is one of a gateway.
	Wanted bool
	// Require answers nothing without a watcher.
	Require bool
	// Start is for a gateway that needs its watcher at once, or runs already.
	Start bool
	// Hide is where the guard's copy of the gateway's arguments begins and ends: some gateways look for
	// others of their kind by that.
	Hide [2]uintptr

	stage    bool  // only the process that has forked the guard has the filter
	ready    bool  // a watcher answers
	over     bool  // no watcher is needed any more
	resolved bool  // Page.Held is answered
	startAt  int64 // of the next watcher, or 0
}

// A gateway needs no watcher to run. So after some time without a watcher the guard answers.
const (
	firstWithin = 10e9
	nextWithin  = 1e9
	pause       = 1e9 // after a watcher that has ended before it was ready
)

const (
	gateSocket = iota
	gateSignals
	gateListener
)

// keepGate is the whole life of such a guard.
func (p *process) keepGate() {
	g, action := &p.gate, [4]uint64{} // an ignored SIGCHLD would hide that a watcher is stopped
	sys(unix.SYS_RT_SIGACTION, uintptr(unix.SIGCHLD), uintptr(unsafe.Pointer(&action)), 0, 8, 0)
	for fd := uintptr(0); fd <= 2; fd++ { // a watcher's are not to be those of a server
		sys(unix.SYS_DUP3, uintptr(p.signals), fd, unix.O_CLOEXEC, 0, 0)
	}
	for at := g.Hide[0]; at < g.Hide[1]; at++ {
		**(**byte)(unsafe.Pointer(&at)) = 0
	}
	if _, ok := p.awaitGo(); !ok {
		exit(0)
	}
	p.polls[gateListener].Fd = p.page.Payload
	p.polls[gateListener+1].Fd, p.polls[gateListener+2].Fd = -1, -1
	if g.stage = !g.Start; g.Start {
		g.startAt = now()
		p.waitWithin(nextWithin)
	}
	for {
		if g.startAt != 0 && now() >= g.startAt {
			g.startAt = 0
			p.startBrain() // one that can't start looks like one that has died
			p.page.Reign++
			p.polls[gateSocket].Fd = p.sock
		}
		p.awaitGate()
	}
}

// awaitGate waits for one event, and reacts.
func (p *process) awaitGate() {
	g := &p.gate
	limit := g.startAt
	answers := g.stage || g.over || !g.ready && !g.Require && now() >= p.page.Until
	p.polls[gateListener].Events = 0 // to poll for more would wake the guard at each execve
	switch {
	case answers:
		p.polls[gateListener].Events = unix.POLLIN
		p.resolve()
	case !g.ready && !g.Require && (limit == 0 || p.page.Until < limit):
		limit = p.page.Until
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

func (p *process) receiveFromWatcher() {
	g := &p.gate
	word, dead := p.receiveWord(unix.MSG_DONTWAIT)
	switch {
	case word == page.WordKeep:
		p.keepServer()
	case word == page.WordReady:
		g.ready, g.resolved, p.page.Until, p.deaths = true, false, 0, 0
	case word == page.WordDone:
		g.over = true
	case dead:
		p.polls[gateSocket].Fd = -1
		switch {
		case g.over || p.polls[gateListener].Fd < 0 && p.page.Servers[0][0] == 0:
		case g.stage: // it executes the gateway
			g.startAt = now()
			p.waitWithin(firstWithin)
		case g.ready:
			g.startAt = now()
			p.waitWithin(nextWithin)
		default:
			if p.deaths++; p.deaths > 2 {
				p.giveUp()
			}
			g.startAt = now() + pause
		}
		g.stage, g.ready = false, false
	}
}

// keepServer keeps the lock and all else that the next watcher needs of a server. A sweep looks for a process
// that has taken a lock, so the guard takes one. No number is 0.
func (p *process) keepServer() {
	server := &p.rights.fds
	server[7], _ = openAt(server[0], eventsFile, 0)
	sys(unix.SYS_FLOCK, uintptr(server[7]), unix.LOCK_SH|unix.LOCK_NB, 0, 0, 0)
	for i := 0; i < len(p.page.Servers) && server[6] >= 0; i++ { // RLIMIT_NOFILE allows them all
		place := &p.page.Servers[i]
		fd, e := openAt(place[0], eventsFile, 0)
		if closeFD(fd); place[0] > 0 && e == 0 { // its group exists
			continue
		}
		for j := range place {
			if place[j] > 0 {
				closeFD(place[j])
			}
			place[j] = server[j]
		}
		return
	}
	for _, fd := range server {
		closeFD(fd)
	}
}

// giveUp kills all servers if the gateway has ended and no watcher can start, perhaps for lack of processes.
func (p *process) giveUp() {
	client, none := unix.PollFd{Fd: p.page.Client, Events: unix.POLLIN}, unix.Timespec{}
	at, now := uintptr(unsafe.Pointer(&client)), uintptr(unsafe.Pointer(&none))
	if n, _ := sys(unix.SYS_PPOLL, at, 1, now, 0, 0); n == 0 {
		return
	}
	for i := range p.page.Servers {
		writeFile(p.page.Servers[i][0], killFile, '1')
	}
	if p.polls[gateListener].Fd < 0 { // no process is left
		exit(1)
	}
}

// waitWithin is the time that programs wait for a watcher. It goes on while guards are killed.
func (p *process) waitWithin(time int64) {
	if p.page.Until == 0 {
		p.page.Until = now() + time
	}
}

// continueWatcher is for SIGCHLD: each program that is executed would wait for a watcher that is stopped.
func (p *process) continueWatcher() {
	for p.nextSignal() != 0 {
	}
	if p.brainPID <= 0 {
		return
	}
	signalChild(p.brainPID, unix.SIGCONT)
	if pid, e := sys(unix.SYS_WAIT4, uintptr(p.brainPID), 0, unix.WNOHANG, 0, 0); e != 0 || pid != 0 {
		p.brainPID = 0
	}
}

// resolve answers what a dead watcher has received.
func (p *process) resolve() {
	if p.gate.resolved {
		return
	}
	p.gate.resolved = true
	all := &p.page.Held
	for i := 0; i < len(all); i++ {
		if id := all[i][0]; id != 0 {
			p.letGoOn(id)
		}
	}
}

func (p *process) answerOne() {
	request := [10]uint64{} // the kernel insists
	if p.control(unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&request)) == 0 {
		p.letGoOn(request[0])
	}
}

func (p *process) letGoOn(id uint64) {
	answer := [3]uint64{id, 0, unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE << 32} // struct seccomp_notif_resp
	p.control(unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&answer))
}

func (p *process) control(request uintptr, argument unsafe.Pointer) syscall.Errno {
	_, e := sys(unix.SYS_IOCTL, uintptr(p.page.Payload), request, uintptr(argument), 0, 0)
	return e
}
