// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package guard

import (
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/page"
)

// Launcher is the launcher from the birth of the server to its end: the parent of the main process. Its loop
// is system calls alone. It decides nothing but whether the guard reacts, and whether anything is left.
type Launcher struct {
	page    *page.Page
	guard   page.Guard
	guards  lasting
	birth   *birth // nil after HandOver
	waiting int32  // socket of a main process that waits for its start, or -1
	payload int32  // directory of the group, or -1
	signals launcherSignals

	polls     [launcherPolls]unix.PollFd
	mainPID   int32
	end       End
	watch     guardWatch
	buf       [512]byte
	children  int32 // the file that lists the children of this process
	over      bool  // main has to report the end
	leaves    bool  // a brain ends the server: this process could not remove the group
	hungUp    bool  // the client has closed stdin or stdout, or is dead
	brainName [24]byte
}

// guardWatch is whether the guard reacts.
type guardWatch struct {
	reactBy int64 // when a guard that has not read the news is replaced, or 0
	thawed  bool  // its scope was, meanwhile
	// aloneSince is when endAlone has begun to wait for the end of a grace, or 0, and asked whether that is
	// the term grace.
	aloneSince int64
	asked      bool
	retryAt    int64         // when a guard is forked that could not be forked before, or 0
	timeout    unix.Timespec // of the present ppoll(2)
}

// End is why the launcher does not wait any more.
type End uint32

const (
	NotEnded     End = iota
	NothingLeft      // main removes the group, and reports
	BrainEndedIt     // a brain has
	MembersStuck     // a brain waits for members that SIGKILL has not ended
)

const (
	fromGuard = iota
	fromSignals
	fromClient    // stdin, stdout and the client's pidfd: the guard has to react, or else this process
	launcherPolls = fromClient + 3
)

// Prepare maps what the main process needs. The guard is forked next, and then the group is made.
func Prepare(on *page.Page, s *Server) (*Launcher, error) {
	b, err := newBirth(on, s)
	if err != nil {
		return nil, err
	}
	on.Foreign = hasChildren()
	return &Launcher{page: on, birth: b, waiting: -1, payload: -1, children: -1}, nil
}

// Prefork forks the main process in a group, or before it has one (-1), for a manager that moves it to a
// scope. There it waits for Start.
func (l *Launcher) Prefork(payload int) (pid int, errno syscall.Errno) {
	l.birth.cgroup = int32(payload)
	l.waiting, errno = l.birth.prefork()
	l.mainPID = l.birth.pid
	return int(l.birth.pid), errno
}

// ForkGuard is Fork. The launcher replaces a guard that is killed.
func (l *Launcher) ForkGuard(o *Options) (*page.Guard, error) {
	lasts, err := newLasting(o)
	if err != nil {
		return nil, err
	}
	g, err := fork(l.page, lasts, o)
	if err != nil {
		return nil, err
	}
	l.guards = *lasts
	l.guard = *g
	return g, nil
}

// Start hands the group to the guard, and starts the main process in it. leaf is where the guard moves, or
// -1.
func (l *Launcher) Start(leaf int32) syscall.Errno {
	handed := l.guard.Go(int(l.payload), int(leaf))
	if handed != 0 && handed != syscall.EPIPE { // a killed guard is replaced
		return handed
	}
	// Before, the guard would have become a child of this process.
	sys(unix.SYS_PRCTL, unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	if e := l.startMain(); e != 0 {
		l.fail(e)
		return 0
	}
	l.page.MainPID = l.mainPID
	l.children, _ = openAt(unix.AT_FDCWD, childrenFile, 0)
	l.polls[fromGuard] = unix.PollFd{Fd: int32(l.guard.Sock), Events: unix.POLLIN}
	l.polls[fromSignals] = unix.PollFd{Fd: l.signals.fd, Events: unix.POLLIN}
	for i, fd := range [...]int32{l.page.Stdin, l.page.Stdout, l.page.Client} {
		l.polls[fromClient+i] = unix.PollFd{Fd: fd, Events: unix.POLLIN}
	}
	l.tellGuard()
	return 0
}

// startMain starts the main process, or lets one go on that waits.
func (l *Launcher) startMain() syscall.Errno {
	if l.waiting >= 0 {
		waits := page.Guard{Sock: int(l.waiting)}
		e := waits.Go(int(l.payload), -1)
		if e == 0 {
			closeFD(l.waiting)
			l.waiting = -1
		}
		return e
	}
	e := l.birth.start(l.payload)
	if e == 0 {
		l.mainPID = l.birth.pid
		closeFD(l.birth.pidfd)
	}
	return e
}

// fail is for a main process that could not be started.
func (l *Launcher) fail(e syscall.Errno) {
	l.page.FailedStep = page.StepFork
	l.page.Errno = uint32(e)
	l.forgetMain()
}

// pollArguments are those of ppoll(2).
func (l *Launcher) pollArguments() (polls, count, timeout uintptr) {
	w := &l.watch
	limit := w.reactBy
	if limit != 0 && !w.thawed {
		limit = w.thawAt()
	}
	if w.retryAt != 0 {
		limit = w.retryAt
	}
	if limit != 0 {
		left := max(limit-now(), 0)
		w.timeout = unix.Timespec{Sec: left / 1e9, Nsec: left % 1e9}
		timeout = uintptr(unsafe.Pointer(&w.timeout))
	}
	return uintptr(unsafe.Pointer(&l.polls)), uintptr(len(l.polls)), timeout
}

// react reacts to the events of l.polls. After an error they do not count.
func (l *Launcher) react(e syscall.Errno) {
	if e != 0 {
		for i := range l.polls {
			l.polls[i].Revents = 0
		}
	}
	if e == syscall.EINVAL {
		l.pollOneByOne()
	}
	if l.polls[fromSignals].Revents != 0 {
		l.receiveSignals()
	}
	if l.polls[fromGuard].Revents != 0 {
		l.receiveGuard()
	}
	for i := fromClient; i < len(l.polls); i++ {
		if l.polls[i].Revents != 0 {
			l.polls[i].Fd = -1
			l.hungUp = true
			l.tellGuard()
		}
	}
	l.checkGuard()
	if l.signals.stopBy != 0 {
		l.signals.stop(l.signals.stopBy)
		l.signals.stopBy = 0
	}
}

// pollOneByOne is for a limit of open files below the number of descriptors, which a member may have lowered:
// ppoll(2) refuses them.
func (l *Launcher) pollOneByOne() {
	sleep(20e6)
	l.polls[fromSignals].Revents = unix.POLLIN // neither is waited for
	l.polls[fromGuard].Revents = unix.POLLIN
	for i := fromClient; i < len(l.polls); i++ {
		fd := l.polls[i].Fd
		event := unix.EpollEvent{}
		n, e := sys(unix.SYS_EPOLL_PWAIT, uintptr(fd), uintptr(unsafe.Pointer(&event)), 1, 0, 0)
		hungUp := e == 0 && n == 1
		if e == syscall.EINVAL { // a pidfd
			hungUp = isReaped(fd)
		}
		if hungUp {
			l.polls[i].Revents = unix.POLLIN
		}
	}
}

// receiveSignals passes signals on. Those by which a client ends a server go to the page as well.
func (l *Launcher) receiveSignals() {
	at, size := uintptr(unsafe.Pointer(&l.buf)), unsafe.Sizeof(l.buf)
	n, e := sys(unix.SYS_READ, uintptr(l.polls[fromSignals].Fd), at, size, 0, 0)
	if e != 0 {
		return
	}
	step := max(l.signals.record, 1)
	for i := uintptr(0); i < n && i < size; i += step {
		l.passSignal(unix.Signal(l.buf[i]))
	}
	l.reap()
}

func (l *Launcher) passSignal(sig unix.Signal) {
	bit := uint64(1) << (uint64(sig-1) & 63)
	switch {
	case sig == unix.SIGCHLD:
		return
	case sig == unix.SIGCONT && l.signals.continues != l.page.Continues: // by the guard
		l.signals.continues = l.page.Continues
		return
	case l.signals.terminal && bit&ofTerminal != 0: // the main process has got it
		l.page.Forwarded++
	case bit&ending != 0:
		next := &l.page.Signals[l.page.SignalsGot%page.SignalsMost]
		next.At = now()
		next.Number = uint32(sig)
		next.ToMain = l.page.SignalsGot == 0 && l.page.Phase < page.Terminating // no member gets two
		if next.ToMain {
			l.signalMain(sig)
			l.signalMain(unix.SIGCONT)
		}
		l.page.SignalsGot++
	default:
		l.signalMain(sig)
		l.page.Forwarded++
	}
	l.tellGuard()
}

// signalMain signals by pid: only this process reaps its child.
func (l *Launcher) signalMain(sig unix.Signal) {
	if !l.page.Exited {
		signalChild(l.mainPID, sig)
	}
}

// tellGuard announces news of the page. A member may have stopped the guard.
func (l *Launcher) tellGuard() {
	l.page.News++
	l.continueGuard()
	sendWord(int32(l.guard.Sock), page.WordLook)
	if l.watch.reactBy == 0 {
		l.watch.reactBy = now() + startWithin
	}
}

func (l *Launcher) continueGuard() {
	sys(unix.SYS_PIDFD_SEND_SIGNAL, uintptr(l.guard.PIDFD), uintptr(unix.SIGCONT), 0, 0, 0)
}

// reap waits for all children that have ended: the main process, and orphans of the server.
func (l *Launcher) reap() {
	for {
		options := uintptr(unix.WNOHANG | unix.WUNTRACED)
		if !l.guards.near { // a guard that is a child does not count
			options |= unix.WALL
		}
		status := uint32(0)
		pid, e := sys(unix.SYS_WAIT4, ^uintptr(0), uintptr(unsafe.Pointer(&status)), options, 0, 0)
		if e != 0 || pid == 0 {
			l.page.Childless = l.isChildless(e)
		}
		switch {
		case e != 0 || pid == 0:
			if l.page.Exited {
				l.mainEnded()
			}
			return
		case int32(pid) != l.mainPID || l.page.Exited:
		case status&0xff == 0x7f:
			l.stopToo(unix.Signal(status >> 8))
		default:
			l.page.Status = status
			l.page.Exited = true
		}
	}
}

// The shell of a terminal knows the launcher alone. If ^Z stopped the launcher at once, the shell would take
// the terminal back while the server (top, less, an editor) still restores it. A server that ignores ^Z
// would be in the background. So the launcher stops only when the main process has stopped. Then the shell
// continues both: they are in one process group.

// stopToo has this process stopped by the signal that has stopped the main process, until the shell continues
// both. A kill of a tree begins with SIGSTOP, too.
func (l *Launcher) stopToo(sig unix.Signal) {
	if l.signals.terminal && l.page.Phase < page.Terminating {
		l.signals.stopBy = sig
	}
}

// mainEnded ends the wait if nothing else is left. Members that notice the end of the main process get 3 ms.
func (l *Launcher) mainEnded() {
	if l.leaves {
		return
	}
	for try := int64(0); try < 16; try++ {
		if l.page.Childless && l.isEmpty() {
			if l.claimEnd() || l.isUnguarded() {
				l.end = NothingLeft
			}
			return
		}
		if l.page.LeftOvers { // a brain ends the rest
			return
		}
		sleep(20e3 * (try + 1))
		_, e := sys(unix.SYS_WAIT4, ^uintptr(0), 0, unix.WNOHANG, 0, 0)
		l.page.Childless = l.isChildless(e)
	}
	l.page.LeftOvers = true
	l.tellGuard()
}

// claimEnd has the launcher end the server. It fails if a brain does.
func (l *Launcher) claimEnd() bool {
	return atomic.CompareAndSwapUint32(&l.page.Ender, page.NotEnding, page.EndedByLauncher)
}

func (l *Launcher) populated() bool { return l.payload >= 0 && populated(l.payload, &l.buf) }

// isEmpty reports whether the group is. Without a guard there may be no descriptor to read that.
func (l *Launcher) isEmpty() bool { return !l.populated() || l.isUnguarded() && l.removeGroup() }

// isUnguarded reports whether a guard could not be replaced.
func (l *Launcher) isUnguarded() bool { return l.watch.retryAt != 0 }

func (l *Launcher) receiveGuard() {
	word, flags := receive(int32(l.guard.Sock), new(rights), unix.MSG_DONTWAIT)
	switch {
	case flags&deadPeer != 0 && l.page.Over:
		l.awaitStatus()
		l.end = BrainEndedIt
	case flags&deadPeer != 0:
		l.replaceGuard()
	case word == page.WordTerminate:
		l.signalMain(unix.SIGTERM)
		l.signalMain(unix.SIGCONT)
	case word == page.WordKill:
		l.killChildren()
	case l.page.Stuck:
		l.end = MembersStuck
	}
}

// awaitStatus waits for a main process that has ended, and is still to be reaped.
func (l *Launcher) awaitStatus() {
	for try := 0; try < 5000 && !l.page.Exited; try++ {
		status := uint32(0)
		at := uintptr(unsafe.Pointer(&status))
		pid, e := sys(unix.SYS_WAIT4, uintptr(l.mainPID), at, unix.WNOHANG|unix.WALL, 0, 0)
		if e == 0 && int32(pid) == l.mainPID {
			l.page.Status = status
			l.page.Exited = true
			return
		}
		sleep(1e6) // nothing reads SIGCHLD any more
	}
}

// checkGuard replaces a guard that does not react. A traced one does not run after SIGCONT, and one that was
// frozen with its scope runs after the thaw.
func (l *Launcher) checkGuard() {
	w := &l.watch
	switch {
	case l.guardHasReacted():
		w.reactBy = 0
		w.thawed = false
	case w.reactBy != 0 && !w.thawed && now() >= w.thawAt():
		w.thawed = true
		w.reactBy = now() + startWithin // this process may have been frozen, too
		if l.page.Managed {
			writeFile(l.payload, scopeFreeze, '0')
		}
		l.continueGuard()
	case w.reactBy != 0 && now() >= w.reactBy:
		w.reactBy = 0
		sys(unix.SYS_PIDFD_SEND_SIGNAL, uintptr(l.guard.PIDFD), uintptr(unix.SIGKILL), 0, 0, 0)
	}
	if w.retryAt != 0 && now() >= w.retryAt {
		l.replaceGuard()
	}
}

// guardHasReacted: it has read all news and, once, started the brain that settles the start. Without that no
// manager knows the server.
func (l *Launcher) guardHasReacted() bool {
	settles := l.page.Wake != 0 && l.page.Generation == 0
	return l.page.NewsRead == l.page.News && !settles
}

// thawAt is when a guard that has not reacted may be frozen.
func (w *guardWatch) thawAt() int64 { return w.reactBy - startWithin + thawAfter }

const (
	retryAfter = 100e6
	thawAfter  = 250e6
)

// replaceGuard forks another guard. That is a child of this process, which stays a subreaper: an orphan that
// init gets would be lost.
func (l *Launcher) replaceGuard() {
	if l.watch.retryAt == 0 {
		closeFD(int32(l.guard.Sock))
		closeFD(int32(l.guard.PIDFD))
		l.guard.Sock = -1
		l.guard.PIDFD = -1
		l.polls[fromGuard].Fd = -1
		l.page.Guards++
		l.reapGuards()
	}
	l.watch.retryAt = 0
	l.page.Payload = l.payload
	l.guards.near = true
	none := Gate{}
	g, e := l.guards.fork(l.page, &none, true)
	if e != 0 {
		l.watch.retryAt = now() + retryAfter
		l.endAlone()
		return
	}
	l.guard = g
	l.polls[fromGuard].Fd = int32(g.Sock)
	l.tellGuard()
}

// endAlone ends a server whose guard can't be replaced, by one step each time: the EOF grace, SIGTERM, the
// term grace, and SIGKILL. That makes room for a guard, which reports the end.
func (l *Launcher) endAlone() {
	w := &l.watch
	signals := &l.page.Signals
	signalled := l.page.SignalsGot > 0 // which the main process has got
	repeated := l.page.SignalsGot > 1 && signals[0].Number == signals[1].Number
	switch at := now(); {
	case !l.hungUp && !signalled && !l.page.LeftOvers:
	case w.aloneSince == 0:
		w.aloneSince = at
		w.asked = signalled || l.page.LeftOvers
		if l.payload >= 0 {
			writeFile(l.payload, freezeFile, '0') // an idle one is frozen
		}
	case !w.asked && (signalled || isOver(w.aloneSince, l.page.EOFGrace, at)):
		w.aloneSince = at
		w.asked = true
		if !signalled {
			l.signalMain(unix.SIGTERM)
			l.signalMain(unix.SIGCONT)
		}
	case w.asked && (repeated || isOver(w.aloneSince, l.page.TermGrace, at)):
		if l.payload >= 0 {
			writeFile(l.payload, killFile, '1')
		}
		l.killChildren()
	}
}

// isOver reports whether a grace has passed. A negative one does not.
func isOver(since, grace, at int64) bool { return grace >= 0 && at >= since+grace }

// killChildren kills all descendants, for a guard that can start no brain: an orphan becomes a child of this
// process as soon as its parents are dead.
func (l *Launcher) killChildren() {
	for round := int64(1); round < 5000; round++ {
		l.reap()
		if l.page.Childless {
			return
		}
		l.visitChildren(true)
		sleep(min(round*50e3, 2e6)) // no event says that a child of a killed one arrives
	}
}

// isChildless reports whether the server has no process among the children. errno is of wait4(2), for all
// that have ended.
func (l *Launcher) isChildless(errno syscall.Errno) bool {
	return errno == syscall.ECHILD || errno == 0 && l.page.Foreign && !l.visitChildren(false)
}

// visitChildren reports whether one of the children is the server's, also if it can't read which there are.
// It kills those if wanted.
func (l *Launcher) visitChildren(kills bool) (found bool) {
	pid := int32(0)
	for offset := uintptr(0); ; {
		at, size := uintptr(unsafe.Pointer(&l.buf)), unsafe.Sizeof(l.buf)
		n, e := sys(unix.SYS_PREAD64, uintptr(l.children), at, size, offset, 0)
		if e != 0 || n == 0 {
			return found || e != 0
		}
		offset += n
		for i := uintptr(0); i < n; i++ {
			c := l.buf[i&(unsafe.Sizeof(l.buf)-1)]
			if c >= '0' && c <= '9' {
				pid = pid*10 + int32(c-'0')
				continue
			}
			if pid != 0 && l.isOfServer(pid) {
				found = true
				if kills {
					signalChild(pid, unix.SIGKILL)
				}
			}
			pid = 0
		}
	}
}

// isOfServer reports whether a child is the server's: not the guard, and not one that this process had before
// it was mcpscope, or an orphan of such.
func (l *Launcher) isOfServer(pid int32) bool {
	if pid == l.page.GuardPID || !l.page.Foreign {
		return pid != l.page.GuardPID
	}
	id := [idLength]byte{}
	copy(id[:], l.guards.name[len("guard-"):])
	return pid == l.mainPID && !l.page.Exited || isTagged(pid, tagOf(&id))
}

// hasChildren reports whether this process has children (waitid(2)): of a program that has executed mcpscope.
func hasChildren() bool {
	const how = unix.WEXITED | unix.WNOHANG | unix.WNOWAIT | unix.WALL
	_, e := sys(unix.SYS_WAITID, unix.P_ALL, 0, 0, how, 0)
	return e != syscall.ECHILD
}

// Dismiss waits until the guard has exited, when the group is removed, or was never made. A member may have
// stopped or traced it.
func (l *Launcher) Dismiss(word byte, within int64) {
	if l.guard.PIDFD <= 0 { // it was never made, or could not be replaced
		return
	}
	ended := false
	for until := now() + within; !ended; {
		if word != 0 {
			sendWord(int32(l.guard.Sock), word)
		}
		sys(unix.SYS_PIDFD_SEND_SIGNAL, uintptr(l.guard.PIDFD), uintptr(unix.SIGCONT), 0, 0, 0)
		if now() >= until {
			sys(unix.SYS_PIDFD_SEND_SIGNAL, uintptr(l.guard.PIDFD), uintptr(unix.SIGKILL), 0, 0, 0)
		}
		ended = endedWithin(int32(l.guard.PIDFD), 100e6)
		l.reapGuards()
	}
	closeFD(int32(l.guard.Sock))
	closeFD(int32(l.guard.PIDFD))
	l.guard = page.Guard{Page: l.page, Sock: -1, PIDFD: -1}
}

// reapGuards is for guards that are children of this process.
func (l *Launcher) reapGuards() {
	if l.guards.near {
		sys(unix.SYS_WAIT4, ^uintptr(0), 0, unix.WNOHANG|unix.WCLONE, 0, 0)
	}
}

// forgetMain reaps a main process that was forked before its group, and has not started: it exits when its
// socket is closed.
func (l *Launcher) forgetMain() {
	if l.waiting >= 0 {
		closeFD(l.waiting)
		l.waiting = -1
		sys(unix.SYS_WAIT4, uintptr(l.mainPID), 0, unix.WALL, 0, 0)
	}
	l.mainPID = 0
}

// Abandon ends a guard and a main process before Start.
func (l *Launcher) Abandon() {
	l.forgetMain()
	closeFD(int32(l.guard.Sock)) // the guard exits
	l.guard.Sock = -1
	l.Dismiss(0, startWithin)
}
