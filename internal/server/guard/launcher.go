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
	birth   *birth
	payload int32 // directory of the group, or -1
	runtime Runtime

	polls    [launcherPolls]unix.PollFd
	mainPID  int32
	end      End
	reactBy  int64 // when a guard that has not read the news is replaced, or 0
	thawed   bool  // its scope was, meanwhile
	retryAt  int64 // when a guard is forked that could not be forked before, or 0
	buf      [512]byte
	children int32 // the file that lists the children of this process

	continues  uint32        // page.Continues of which the signals have come
	leaves     bool          // a brain ends the server: this process could not remove the group
	stopBy     unix.Signal   // it has stopped the main process, and stops the launcher next; or 0
	recordSize uintptr       // of the record for each signal, which begins with the number; 0 is one byte
	fewer      bool          // it polls neither stdin and stdout nor the client
	timeout    unix.Timespec // of the present ppoll(2)
}

// End is why Await returns.
type End uint32

const (
	NotEnded     End = iota
	NothingLeft      // the caller removes the group, and reports
	BrainEndedIt     // a brain has
	MembersStuck     // a brain waits for members that SIGKILL has not ended
)

// Runtime has the functions of a launcher with a Go runtime.
type Runtime struct {
	Signals  int  // a descriptor with the numbers of signals that have come, a byte each
	Terminal bool // those of a terminal go to the main process by themselves, and ^Z is the server's
	// Stop stops this process by a signal, and returns when it is continued.
	Stop func(unix.Signal)
	// Poll is ppoll(2) for other threads of the runtime to go on meanwhile.
	Poll func(polls, count, timeout uintptr) syscall.Errno
}

const (
	fromGuard = iota
	fromSignals
	fromClient    // stdin, stdout and the client's pidfd: only to learn whether the guard reacts
	launcherPolls = fromClient + 3
)

// ending are the signals by which a client ends a server: linux.Ending.
const ending = 1<<(unix.SIGINT-1) | 1<<(unix.SIGTERM-1) | 1<<(unix.SIGHUP-1) | 1<<(unix.SIGQUIT-1)

// ofTerminal are those that a terminal, or a shell's fg, sends to the main process, too: linux.OfTerminal.
const ofTerminal = 1<<(unix.SIGINT-1) | 1<<(unix.SIGQUIT-1) | 1<<(unix.SIGWINCH-1) | 1<<(unix.SIGCONT-1)

// Prepare maps what the main process needs. The guard is forked next, and then the group is made.
func Prepare(on *page.Page, s *Server) (*Launcher, error) {
	b, err := newBirth(on, s)
	if err != nil {
		return nil, err
	}
	return &Launcher{page: on, birth: b, payload: -1, children: -1}, nil
}

// Prefork forks the main process before it has a group, for a manager that moves it to a scope.
func (l *Launcher) Prefork() (pid int, errno syscall.Errno) {
	errno = l.birth.prefork()
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

// Start hands the group to the guard, and starts the main process in it. payload is -1 in a tree; leaf is
// where the guard moves, or -1.
func (l *Launcher) Start(payload, leaf int, r Runtime) syscall.Errno {
	l.payload = int32(payload)
	l.runtime = r
	handed := l.guard.Go(payload, leaf)
	if handed != 0 && handed != syscall.EPIPE { // a killed guard is replaced
		return handed
	}
	// Before, the guard would have become a child of this process.
	sys(unix.SYS_PRCTL, unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	errno := l.birth.start(l.payload)
	if errno != 0 {
		l.page.FailedStep = page.StepFork
		l.page.Errno = uint32(errno)
		l.forgetMain()
		return 0 // the caller asks the page
	}
	l.mainPID = l.birth.pid
	closeFD(l.birth.pidfd)
	l.page.MainPID = l.mainPID
	l.children, _ = openAt(unix.AT_FDCWD, childrenFile, 0)
	l.polls[fromGuard] = unix.PollFd{Fd: int32(l.guard.Sock), Events: unix.POLLIN}
	l.polls[fromSignals] = unix.PollFd{Fd: int32(r.Signals), Events: unix.POLLIN}
	for i, fd := range [...]int32{l.page.Stdin, l.page.Stdout, l.page.Client} {
		l.polls[fromClient+i] = unix.PollFd{Fd: fd, Events: unix.POLLIN}
	}
	l.tellGuard()
	return 0
}

// Await waits until nothing of the server is left, or nothing that could be ended.
func (l *Launcher) Await() End {
	if l.mainPID <= 0 {
		return NothingLeft
	}
	for l.end == NotEnded {
		polls, count, timeout := l.pollArguments()
		l.react(l.runtime.Poll(polls, count, timeout))
		if l.stopBy != 0 {
			l.runtime.Stop(l.stopBy)
			l.stopBy = 0
		}
	}
	return l.end
}

// pollArguments are those of ppoll(2).
func (l *Launcher) pollArguments() (polls, count, timeout uintptr) {
	limit := l.reactBy
	if limit != 0 && !l.thawed {
		limit = l.thawAt()
	}
	if l.retryAt != 0 {
		limit = l.retryAt
	}
	if limit != 0 {
		left := max(limit-now(), 0)
		l.timeout = unix.Timespec{Sec: left / 1e9, Nsec: left % 1e9}
		timeout = uintptr(unsafe.Pointer(&l.timeout))
	}
	count = uintptr(len(l.polls))
	if l.fewer {
		count = fromClient
	}
	return uintptr(unsafe.Pointer(&l.polls)), count, timeout
}

// react reacts to the events of l.polls. After an error they do not count.
func (l *Launcher) react(e syscall.Errno) {
	if e != 0 {
		for i := range l.polls {
			l.polls[i].Revents = 0
		}
	}
	if e == syscall.EINVAL { // RLIMIT_NOFILE was lowered below the number of descriptors
		l.fewer = true
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
			l.tellGuard()
		}
	}
	l.checkGuard()
}

// receiveSignals passes signals on. Those by which a client ends a server go to the page as well.
func (l *Launcher) receiveSignals() {
	at, size := uintptr(unsafe.Pointer(&l.buf)), unsafe.Sizeof(l.buf)
	n, e := sys(unix.SYS_READ, uintptr(l.polls[fromSignals].Fd), at, size, 0, 0)
	if e != 0 {
		return
	}
	step := max(l.recordSize, 1)
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
	case sig == unix.SIGCONT && l.continues != l.page.Continues: // by the guard
		l.continues = l.page.Continues
		return
	case l.runtime.Terminal && bit&ofTerminal != 0: // the main process has got it
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
	if l.reactBy == 0 {
		l.reactBy = now() + startWithin
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
		l.page.Childless = e == syscall.ECHILD
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
	if l.runtime.Terminal && l.page.Phase < page.Terminating {
		l.stopBy = sig
	}
}

// mainEnded ends the wait if nothing else is left. Members that notice the end of the main process get 3 ms.
func (l *Launcher) mainEnded() {
	if l.leaves {
		return
	}
	for try := int64(0); try < 16; try++ {
		if l.page.Childless && !l.populated() {
			if l.mayMissOrphans() {
				break
			}
			if l.claimEnd() {
				l.end = NothingLeft
			}
			return
		}
		if l.page.LeftOvers { // a brain ends the rest
			return
		}
		sleep(20e3 * (try + 1))
		_, e := sys(unix.SYS_WAIT4, ^uintptr(0), 0, unix.WNOHANG, 0, 0)
		l.page.Childless = e == syscall.ECHILD
	}
	l.page.LeftOvers = true
	l.tellGuard()
}

// mayMissOrphans reports whether an orphan may be init's, and in another group: this process was no subreaper
// while it replaced a guard. A brain looks for the tag.
func (l *Launcher) mayMissOrphans() bool { return l.page.Guards > 0 && !l.guards.near }

// claimEnd has the launcher end the server. It fails if a brain does.
func (l *Launcher) claimEnd() bool {
	return atomic.CompareAndSwapUint32(&l.page.Ender, page.NotEnding, page.EndedByLauncher)
}

func (l *Launcher) populated() bool { return l.payload >= 0 && populated(l.payload, &l.buf) }

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
		sleep(1e6) // SIGCHLD goes to the pipe, which nothing reads any more
	}
}

// checkGuard replaces a guard that does not react. A traced one does not run after SIGCONT, and one that was
// frozen with its scope runs after the thaw.
func (l *Launcher) checkGuard() {
	switch {
	case l.guardHasReacted():
		l.reactBy = 0
		l.thawed = false
	case l.reactBy != 0 && !l.thawed && now() >= l.thawAt():
		l.thawed = true
		l.reactBy = now() + startWithin // this process may have been frozen, too
		if l.page.Managed {
			writeFile(l.payload, scopeFreeze, '0')
		}
		l.continueGuard()
	case l.reactBy != 0 && now() >= l.reactBy:
		l.reactBy = 0
		sys(unix.SYS_PIDFD_SEND_SIGNAL, uintptr(l.guard.PIDFD), uintptr(unix.SIGKILL), 0, 0, 0)
	}
	if l.retryAt != 0 && now() >= l.retryAt {
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
func (l *Launcher) thawAt() int64 { return l.reactBy - startWithin + thawAfter }

const (
	retryAfter = 100e6
	thawAfter  = 250e6
)

// replaceGuard forks another guard. Meanwhile this process is no subreaper, or the guard would become its
// child. An orphan that is re-parented to init then is in the group, or found by its tag. A tree is no group,
// so there the guard does become a child.
func (l *Launcher) replaceGuard() {
	if l.retryAt == 0 {
		closeFD(int32(l.guard.Sock))
		closeFD(int32(l.guard.PIDFD))
		l.guard.Sock = -1
		l.guard.PIDFD = -1
		l.polls[fromGuard].Fd = -1
		l.page.Guards++
		l.reapGuards()
	}
	l.retryAt = 0
	l.page.Payload = l.payload
	if l.payload < 0 {
		l.guards.near = true
	}
	if !l.guards.near {
		sys(unix.SYS_PRCTL, unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
	}
	none := Gate{}
	g, e := l.guards.fork(l.page, &none, true)
	sys(unix.SYS_PRCTL, unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	if e != 0 {
		l.retryAt = now() + retryAfter
		return
	}
	l.guard = g
	l.polls[fromGuard].Fd = int32(g.Sock)
	l.tellGuard()
}

// killChildren kills all descendants, for a guard that can start no brain: an orphan becomes a child of this
// process as soon as its parents are dead.
func (l *Launcher) killChildren() {
	for round := int64(1); round < 5000; round++ {
		l.reap()
		if l.page.Childless {
			return
		}
		l.killListed()
		sleep(min(round*50e3, 2e6)) // no event says that a child of a killed one arrives
	}
}

func (l *Launcher) killListed() {
	pid := int32(0)
	n := readFile(l.children, &l.buf)
	for i := uintptr(0); i < n; i++ {
		c := l.buf[i&(unsafe.Sizeof(l.buf)-1)]
		switch {
		case c >= '0' && c <= '9':
			pid = pid*10 + int32(c-'0')
		case pid != 0:
			if pid != l.page.GuardPID { // where init does not reap it is a child, too
				signalChild(pid, unix.SIGKILL)
			}
			pid = 0
		}
	}
}

// Guard is the guard that there is now.
func (l *Launcher) Guard() *page.Guard { return &l.guard }

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
	}
	closeFD(int32(l.guard.Sock))
	closeFD(int32(l.guard.PIDFD))
	l.guard = page.Guard{Page: l.page, Sock: -1, PIDFD: -1}
	l.reapGuards()
}

// reapGuards is for guards that are children of this process.
func (l *Launcher) reapGuards() {
	if l.guards.near {
		sys(unix.SYS_WAIT4, ^uintptr(0), 0, unix.WNOHANG|unix.WCLONE, 0, 0)
	}
}

// forgetMain reaps a main process that was forked before its group, and has not started.
func (l *Launcher) forgetMain() {
	if l.mainPID > 0 {
		sys(unix.SYS_WAIT4, uintptr(l.mainPID), 0, unix.WALL, 0, 0)
	}
	l.birth.sends = -1
	l.birth.sock = -1
	l.mainPID = 0
}

// Abandon ends a guard and a main process before Start.
func (l *Launcher) Abandon() {
	if l.birth.sends >= 0 {
		closeFD(l.birth.sends) // the main process exits
		l.forgetMain()
	}
	closeFD(int32(l.guard.Sock)) // the guard exits
	l.guard.Sock = -1
	l.Dismiss(0, startWithin)
}
