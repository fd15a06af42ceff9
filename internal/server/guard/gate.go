// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package guard

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/decide"
	"github.com/mcpscope/mcpscope/internal/server/page"
)

// Gate makes the guard that of a gateway. Its helpers are watchers, which answer what a filter holds and
// decide about all servers. The process that has forked it executes the gateway: the guard answers that
// call, so that the gateway need not wait for a watcher, and starts the first one then.
type Gate struct {
	// Wanted: it is one of a gateway.
	Wanted bool
	// Require answers nothing without a watcher.
	Require bool
	// Start is for a gateway that needs its watcher at once, or runs already.
	Start bool
}

// A gateway needs no watcher to run. So after some time without a watcher the guard answers.
const (
	firstWithin  = 10e9
	nextWithin   = 1e9
	restartPause = 1e9 // after a watcher that has ended before it was ready
)

// Events that the guard of a gateway polls for.
const (
	gateSocket = iota // of the process that executes the gateway or, later, of a watcher
	gateSignals
	gateListener
	gateSpare
	gatePolls
)

// gateGuard is the guard of a gateway.
type gateGuard struct {
	process  process
	page     *page.Page
	gate     Gate
	polls    [gatePolls]unix.PollFd
	watcher  goProcess
	spare    spare
	received reception

	gatewayNotStarted bool  // only the process that has forked the guard has the filter
	ready             bool  // a watcher answers
	over              bool  // the watcher has nothing to do any more, so this answers
	refuses           bool  // no watcher has ever begun, so the gateway is not executed
	resolved          bool  // Page.Gateway.Held is answered
	servers           int   // that are kept
	startAt           int64 // of the next watcher, or 0
}

// keepGate is the whole life of the guard of a gateway.
func (g *gateGuard) keepGate() {
	g.process.begin()
	raiseFileLimit()
	action := [4]uint64{} // SIG_DFL: an ignored SIGCHLD would hide that a watcher is stopped
	sys(unix.SYS_RT_SIGACTION, uintptr(unix.SIGCHLD), uintptr(unsafe.Pointer(&action)), 0, 8, 0)
	for fd := uintptr(0); fd <= 2; fd++ { // a watcher's are not to be those of a server
		sys(unix.SYS_DUP3, uintptr(g.process.signals), fd, unix.O_CLOEXEC, 0, 0)
	}
	g.watcher.sock = g.process.launcherSock
	for i := range g.polls {
		g.polls[i] = unix.PollFd{Fd: -1, Events: unix.POLLIN}
	}
	g.polls[gateSignals].Fd = g.process.signals
	g.spare.pidfd = -1
	g.awaitListener()
	g.polls[gateListener].Fd = g.page.Gateway.Listener
	g.gatewayNotStarted = !g.gate.Start
	if g.gate.Start {
		g.startAt = now()
		g.waitWithin(nextWithin)
	}
	g.answerForEver()
}

// answerForEver starts watchers, and answers where there is none. It does not return.
func (g *gateGuard) answerForEver() {
	for {
		if g.startAt != 0 && now() >= g.startAt {
			g.startAt = 0
			closeFD(g.watcher.sock) // that of the process which has forked this guard, or -1
			g.watcher.sock = -1
			if !g.process.startGo(&g.watcher) {
				g.watcherDied()
			}
		}
		g.awaitGate()
	}
}

// awaitListener receives the servers that the guard before had, and then the listener.
func (g *gateGuard) awaitListener() {
	for {
		word, _ := g.received.read(g.watcher.sock, 0)
		switch word {
		case page.WordKeep, page.WordDrop:
			g.receiveServer(word)
		case page.WordGo:
			if g.received.truncated { // the filter has no listener, so nothing is executed any more
				exit(1)
			}
			g.page.Gateway.Listener = g.received.rights.FDs[0]
			return
		default:
			exit(0)
		}
	}
}

// awaitGate waits for one event, and reacts.
func (g *gateGuard) awaitGate() {
	g.polls[gateSocket].Fd = g.watcher.sock
	g.polls[gateListener].Events = 0 // to poll for more would wake the guard at each execve
	deadline := decide.Earlier(g.startAt, g.spareDueAt())
	g.polls[gateSpare].Fd = g.spare.pidfd
	answerAt := g.page.Gateway.AnswerAt
	willAnswer := !g.ready && !g.gate.Require
	answers := g.gatewayNotStarted || g.over || g.refuses || willAnswer && now() >= answerAt
	switch {
	case answers:
		g.polls[gateListener].Events = unix.POLLIN
		g.resolve()
	case willAnswer && (deadline == 0 || answerAt < deadline):
		deadline = answerAt
	}
	n, e := waitFor(uintptr(unsafe.Pointer(&g.polls)), gatePolls, deadline)
	if e != 0 || n == 0 {
		return
	}
	if g.polls[gateSignals].Revents != 0 {
		g.continueWatcher()
	}
	if g.polls[gateSpare].Revents != 0 {
		g.spare.forget()
	}
	switch happened := g.polls[gateListener].Revents; {
	case g.polls[gateSocket].Revents != 0: // first: a watcher may have to answer what is held
		g.receiveFromWatcher()
	case happened&unix.POLLIN != 0:
		g.answerOne()
	case happened != 0: // no process has the filter any more
		g.polls[gateListener].Fd = -1
	}
	if g.polls[gateListener].Fd < 0 && !g.watcher.isRunning() && g.startAt == 0 {
		exit(0)
	}
}

func (g *gateGuard) receiveFromWatcher() {
	word, dead := g.received.read(g.watcher.sock, unix.MSG_DONTWAIT)
	switch {
	case word == page.WordKeep || word == page.WordDrop:
		g.receiveServer(word)
	case word == page.WordReady:
		g.ready = true
		g.over = false
		if g.refuses { // the gateway has not called yet, so this watcher answers
			g.refuses = false
			g.page.Gateway.Refused = false
		}
		g.resolved = false
		g.page.Gateway.AnswerAt = 0
		g.watcher.deaths = 0
	case word == page.WordDone:
		g.over = true
	case dead:
		closeFD(g.watcher.sock)
		g.watcher.sock = -1
		g.watcherDied()
	}
}

// watcherDied has the next watcher started, if one is needed.
func (g *gateGuard) watcherDied() {
	switch {
	case (g.over || g.polls[gateListener].Fd < 0) && g.servers == 0:
	case g.over: // it has left servers that it could not watch
		g.startAt = now() + restartPause
	case g.gatewayNotStarted: // it executes the gateway
		g.startAt = now()
		g.waitWithin(firstWithin)
	case g.ready:
		g.startAt = now()
		g.waitWithin(nextWithin)
	default:
		g.watcher.deaths++
		if g.watcher.deaths >= deathsMost {
			g.giveUp()
		}
		g.startAt = now() + restartPause
	}
	g.gatewayNotStarted = false
	g.ready = false
}

// raiseFileLimit raises the soft limit of guard and watchers, which have descriptors for each server. It is
// the gateway's own process that executes the gateway, and that keeps its limit.
func raiseFileLimit() {
	limit := unix.Rlimit{}
	addr := uintptr(unsafe.Pointer(&limit))
	sys(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_NOFILE, 0, addr, 0)
	limit.Cur = limit.Max
	sys(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_NOFILE, addr, 0, 0)
}

// receiveServer receives the rest of a message, and answers it: a watcher puts a server into a group only
// when the next watcher will know of it.
func (g *gateGuard) receiveServer(word byte) {
	m := page.Message{Word: word}
	const rest = page.MessageSize - 1 // it was sent whole
	sys(unix.SYS_RECVFROM, uintptr(g.watcher.sock), uintptr(unsafe.Pointer(&m))+1, rest, unix.MSG_WAITALL, 0)
	e := syscall.Errno(0)
	switch {
	case g.received.truncated:
		e = syscall.EMFILE
	case word == page.WordDrop:
		e = g.keepServer(m.Number, page.Kept{})
	default:
		kept := g.received.kept(&m)
		if e = g.keepServer(m.Number, kept); e != 0 {
			closeKept(kept)
		}
	}
	sendWord(g.watcher.sock, byte(e)) // the watcher waits for it, so there is room
}

// kept sorts the descriptors of a message: those that there are follow one another.
func (r *reception) kept(m *page.Message) page.Kept {
	fds := &r.rights.FDs
	kept := page.Kept{Memory: fds[0], Payload: -1, Stdin: -1, Stdout: -1}
	next := 1
	if m.HasPayload {
		kept.Payload = fds[next&3]
		next++
	}
	if m.HasStdin {
		kept.Stdin = fds[next&3]
		next++
	}
	if m.HasStdout {
		kept.Stdout = fds[next&3]
	}
	return kept
}

// keepServer keeps the descriptors of a server in the place of those that had its number. Descriptors 0 to 2
// are never among them: see keepGate.
func (g *gateGuard) keepServer(number uint32, kept page.Kept) syscall.Errno {
	before, _ := serverKept(g.page, number)
	addr := uintptr(unsafe.Pointer(&kept))
	size := unsafe.Sizeof(kept)
	n, e := sys(unix.SYS_PWRITE64, uintptr(g.page.Memory), addr, size, uintptr(g.page.KeptAt(number)), 0)
	switch {
	case e != 0:
		return e
	case n != size:
		return syscall.ENOSPC
	}
	if before.Memory != 0 {
		g.servers--
		closeKept(before)
	}
	if kept.Memory != 0 {
		g.servers++
	}
	return 0
}

// serverKept returns the descriptors under a number: zero for none. ok: it is not behind the last one.
func serverKept(on *page.Page, number uint32) (kept page.Kept, ok bool) {
	addr := uintptr(unsafe.Pointer(&kept))
	size := unsafe.Sizeof(kept)
	n, e := sys(unix.SYS_PREAD64, uintptr(on.Memory), addr, size, uintptr(on.KeptAt(number)), 0)
	return kept, e == 0 && n == size
}

func closeKept(k page.Kept) {
	closeFD(k.Memory)
	if k.Payload >= 0 {
		closeFD(k.Payload)
	}
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
		if k.Memory != 0 {
			passOn(k.Memory)
			passOn(k.Payload)
			passOn(k.Stdin)
			passOn(k.Stdout)
		}
	}
}

// giveUp kills the servers that no client has any more, where no watcher can start: perhaps there is no
// process for one as long as they live.
func (g *gateGuard) giveUp() {
	if g.gate.Require && !g.page.Gateway.MovedOut {
		g.refuseGateway()
	}
	for number := uint32(0); ; number++ {
		kept, ok := serverKept(g.page, number)
		if !ok {
			break
		}
		if kept.Memory != 0 {
			killAbandoned(&kept)
		}
	}
	if g.polls[gateListener].Fd < 0 { // no process is left
		exit(1)
	}
}

// refuseGateway has a gateway not start whose first watcher has not begun. Until then only the process that
// executes it has the filter, so whatever is held is that call.
func (g *gateGuard) refuseGateway() {
	const why = "its watcher (mcpscope watch) has ended three times before it could begin"
	for i := range len(why) {
		g.page.Gateway.Refusal[i] = why[i]
	}
	g.page.Gateway.Refused = true
	g.refuses = true
}

// killAbandoned kills a server if its client has ended and nobody can write to its stdin. It spares one that
// is unproven: only its name says that it is a server, so nothing stops it.
func killAbandoned(kept *page.Kept) {
	server, e := page.Map(kept.Memory)
	if e != 0 {
		return
	}
	switch {
	case server.ByWatcher.Unproven || !isAbandoned(server, kept.Stdin):
	case kept.Payload >= 0:
		writeFile(kept.Payload, killFile, '1')
	default:
		killTree(server.Order.Tag)
	}
	sys(unix.SYS_MUNMAP, uintptr(unsafe.Pointer(server)), page.Size, 0, 0, 0)
}

// isAbandoned is page.IsAbandoned where no watcher may have seen the events.
func isAbandoned(server *page.Page, stdin int32) bool {
	if !hasEnded(&server.Started.Client) {
		return false
	}
	isUnwritable := server.ByGuard.Happened[page.StdinClosed] != 0 || server.ByHelper.Holder == page.NoHolder
	if isUnwritable || !server.Started.Side.Conveyed {
		return true
	}
	hangUp := unix.PollFd{Fd: stdin, Events: unix.POLLIN}
	waitFor(uintptr(unsafe.Pointer(&hangUp)), 1, 1) // the deadline is over
	return hangUp.Revents != 0
}

// hasEnded is false for a process that can't be examined.
func hasEnded(p *page.Process) bool {
	fd, e := sys(unix.SYS_PIDFD_OPEN, uintptr(p.PID), 0, 0, 0, 0)
	if e != 0 {
		return e == syscall.ESRCH
	}
	now := page.Process{}
	buf := [512]byte{}
	isOther := identify(&now, int(p.PID), &buf) && now.Start != p.Start
	ended := isOther || endedWithin(int32(fd), 0) // that of a zombie has the start of the process
	closeFD(int32(fd))
	return ended
}

// killTree kills a server that has no group, by its tag.
func killTree(tag uint64) {
	search := tagSearch{tag: tag, procs: -1}
	if tag>>tagBits == tagMagic {
		search.killAll()
	}
}

// waitWithin is the time that programs wait for a watcher. It goes on while guards are killed.
func (g *gateGuard) waitWithin(time int64) {
	if g.page.Gateway.AnswerAt == 0 {
		g.page.Gateway.AnswerAt = now() + time
	}
}

// continueWatcher handles SIGCHLD: it reaps a watcher that has ended, and continues one that is stopped.
// Each program that is executed would wait for that.
func (g *gateGuard) continueWatcher() {
	for g.process.nextSignal() != 0 {
	}
	g.watcher.reap()
	if g.watcher.pid > 0 {
		signalChild(g.watcher.pid, unix.SIGCONT)
	}
}

// resolve answers what a dead watcher has received.
func (g *gateGuard) resolve() {
	if g.resolved {
		return
	}
	g.resolved = true
	held := &g.page.Gateway.Held
	for i := 0; i < len(held); i++ {
		id := held[i][0]
		if id != 0 {
			g.letGoOn(id)
		}
	}
}

func (g *gateGuard) answerOne() {
	request := [10]uint64{} // the kernel insists
	switch {
	case g.control(unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&request)) != 0:
	case g.refuses:
		g.answer(request[0], -int32(unix.EPERM), 0)
	default:
		g.letGoOn(request[0])
	}
}

func (g *gateGuard) letGoOn(id uint64) { g.answer(id, 0, unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE) }

func (g *gateGuard) answer(id uint64, errno int32, flags uint64) {
	answer := [3]uint64{id, 0, uint64(uint32(errno)) | flags<<32} // struct seccomp_notif_resp
	g.control(unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&answer))
}

func (g *gateGuard) control(request uintptr, argument unsafe.Pointer) syscall.Errno {
	_, e := sys(unix.SYS_IOCTL, uintptr(g.page.Gateway.Listener), request, uintptr(argument), 0, 0)
	return e
}
