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
	fromClient                     // stdin, stdout and the client's pidfd, on which the guard has to react
	fromInput     = fromClient + 3 // while the members are idle
	launcherPolls = fromInput + 1
)

// Prepare maps what the main process needs. The guard is forked next, and then the group is made.
func Prepare(on *page.Page, s *Server) (*Launcher, error) {
	b, err := newBirth(on, s)
	if err != nil {
		return nil, err
	}
	on.Foreign = hasChildren()
	l := &Launcher{page: on, birth: b}
	l.holdNothing()
	return l, nil
}

// holdNothing marks the descriptors that a launcher may have as none.
func (l *Launcher) holdNothing() {
	l.waiting = -1
	l.payload = -1
	l.children = -1
	l.signals.fd = -1
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
	l.watchInput()
	return uintptr(unsafe.Pointer(&l.polls)), uintptr(len(l.polls)), timeout
}

// watchInput polls the input of idle members, as the guard does: a member may have stopped that.
func (l *Launcher) watchInput() {
	l.polls[fromInput] = unix.PollFd{Fd: -1, Events: unix.POLLIN}
	isIdle := l.page.Phase == page.Idle && !l.page.Roused
	if isIdle && l.watch.reactBy == 0 {
		l.polls[fromInput].Fd = l.page.Input
	}
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
	if l.polls[fromInput].Revents != 0 {
		l.tellGuard()
	}
	for i := fromClient; i < fromInput; i++ {
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
	for i := fromClient; i < fromInput; i++ {
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

// isEmpty reports whether the group is. Without a guard there may be no descriptor to read that. Then it is
// if it can be removed.
func (l *Launcher) isEmpty() bool { return !l.populated() || l.isUnguarded() && l.removeGroup() }

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

// Abandon ends a guard and a main process before Start.
func (l *Launcher) Abandon() {
	l.forgetMain()
	closeFD(int32(l.guard.Sock)) // the guard exits
	l.guard.Sock = -1
	l.Dismiss(0, startWithin)
}
