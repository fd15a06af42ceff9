// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package guard

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/page"
)

// live is the launcher's process from the server's start on, and ends as the server ends. It returns where
// main has to do more than that: see Over.
func (l *Launcher) live() {
	for {
		for l.page.ByLauncher.FailedStep != page.StepFork && l.end == NotEnded {
			polls, count, timeout := l.events.arguments(l.keeper.killEach())
			_, e := sys(unix.SYS_PPOLL, polls, count, timeout, 0, 0)
			l.react(e)
		}
		if l.exitOrLeave() == toMain {
			l.over = true
			return
		}
	}
}

// afterWait is how a launcher goes on that has nothing to wait for, and does not exit.
type afterWait uint32

const (
	waitAgain afterWait = iota // a helper has to end something first
	toMain                     // to report the failure, or that the status is unknown
)

// exitOrLeave ends the process as the main process has ended, when nothing is left of the server.
func (l *Launcher) exitOrLeave() afterWait {
	if l.page.ByLauncher.FailedStep != page.StepNone || l.end == MembersStuck {
		return toMain
	}
	if l.end == HelperEndedIt {
		return l.exitAfterHelper()
	}
	return l.exitWithoutHelper()
}

// exitAfterHelper dismisses the guard of a server that a helper has ended, and exits as its main process
// has. It returns if members are left, or if the status is unknown.
func (l *Launcher) exitAfterHelper() afterWait {
	l.keeper.dismiss(page.WordDone, startWithin)
	if l.page.ByHelper.Left[0] != 0 {
		return toMain
	}
	if l.page.Order.Verbose {
		printNotes(l.page)
	}
	exitAs(l.page)
	return toMain
}

// plainEnd chooses the end of a server of which nothing is left: as ordered, as far as there can be a helper.
func (k *guardKeeper) plainEnd(ordered page.PlainEnd) page.PlainEnd {
	if k.isMissing { // and none can be forked: there is no helper either
		if ordered == page.HelperEndsFirst {
			return page.MainEnds
		}
		return page.LauncherEnds // without a report
	}
	// This process returns before its guard only if that lives and is no child: init may not reap a child
	// that it gets then. A dead guard has to be replaced first.
	guardStays := !k.lasting.near && !endedWithin(int32(k.guard.PIDFD), 0)
	if ordered == page.HelperEndsLater && !guardStays {
		return page.HelperEndsFirst
	}
	return ordered
}

// exitWithoutHelper removes the group of a server of which nothing is left, and exits as its main process
// has; or it leaves the end to Main or to a helper.
func (l *Launcher) exitWithoutHelper() afterWait {
	switch l.keeper.plainEnd(l.page.Order.PlainEnd) {
	case page.MainEnds:
		return toMain
	case page.HelperEndsFirst:
		l.leaveToHelper(page.LeftWaiting)
		return waitAgain
	case page.HelperEndsLater:
		l.leaveToHelper(page.LeftReturned)
		exitAs(l.page)
		return waitAgain
	}
	if l.group.remove() || l.keeper.isMissing { // then a sweep removes the group
		if l.keeper.isMissing {
			const why = "mcpscope: the guard was killed, and no process can be forked in its place\n"
			write(2, address(why), uintptr(len(why)))
		}
		l.keeper.release()
		exitAs(l.page)
		return toMain
	}
	l.leaveToHelper(page.LeftWaiting) // a member may have made others in it
	return waitAgain
}

// leaveToHelper gives up the claim to the end: a helper removes the group.
func (l *Launcher) leaveToHelper(how page.EndLeft) {
	l.end = NotEnded
	l.leaves = true
	l.page.ByLauncher.EndLeft = how
	page.LeaveToGuard(l.page)
	l.announceEnd()
}

// leaveClient closes the descriptors that are the server's own, but stderr.
func (l *Launcher) leaveClient() {
	null, e := openAt(unix.AT_FDCWD, "/dev/null\x00", unix.O_RDWR)
	if e != 0 {
		null = l.page.FD.Program // a descriptor that no client waits for
	}
	// These can't fail: both numbers are open, and below any limit of open files.
	sys(unix.SYS_DUP3, uintptr(null), 0, unix.O_CLOEXEC, 0, 0)
	sys(unix.SYS_DUP3, uintptr(null), 1, unix.O_CLOEXEC, 0, 0)
	keeps := keepList{}
	for fd := int32(0); fd < 3; fd++ {
		keeps.add(fd)
	}
	for _, fd := range l.page.Descriptors() {
		keeps.add(fd)
	}
	keeps.add(l.page.Memory)
	keeps.add(int32(l.keeper.guard.Sock))
	keeps.add(int32(l.keeper.guard.PIDFD))
	keeps.add(l.Signals.fd)
	keeps.add(l.group.payload)
	keeps.add(l.group.kills)
	keeps.add(l.children.list)
	keeps.closeOthers()
}

// printNotes prints them on the client's stderr.
func printNotes(on *page.Page) {
	size := uintptr(0)
	for size < uintptr(len(on.ByHelper.EndNotes)) && on.ByHelper.EndNotes[size] != 0 {
		size++
	}
	write(2, uintptr(unsafe.Pointer(&on.ByHelper.EndNotes)), size)
}

// write writes all of a text, unless that fails.
func write(fd int32, addr, size uintptr) {
	for size > 0 {
		n, e := sys(unix.SYS_WRITE, uintptr(fd), addr, size, 0, 0)
		if e != 0 {
			return
		}
		addr += n
		size -= min(n, size)
	}
}

// exitAs ends the process as the main process has ended. It returns if the status is unknown.
func exitAs(on *page.Page) {
	if !on.Exited() {
		return
	}
	status := on.Status()
	sig := uintptr(status & 0x7f)
	if sig == 0 {
		exit(uintptr(status >> 8 & 0xff))
	}
	ExitBy(sig)
}

// ExitBy ends this process by the signal that has ended the server, so that the client gets the same wait
// status. It does not return. Only the server dumps its core: with a pipe in core_pattern (core(5)) a limit
// alone does not prevent that.
func ExitBy(sig uintptr) {
	none := unix.Rlimit{}
	action := [4]uint64{} // SIG_DFL: signal.Reset would put back handlers of the Go runtime
	mask := ^uint64(1 << (sig - 1))
	sys(unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	sys(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_CORE, uintptr(unsafe.Pointer(&none)), 0, 0)
	sys(unix.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&action)), 0, 8, 0)
	sys(unix.SYS_KILL, uintptr(unix.Getpid()), sig, 0, 0, 0)
	setMask(&mask, nil)
	exit(128 + sig) // as PID 1, which its own signals do not end
}

// Ended has all that main needs.
type Ended struct {
	Page    *page.Page
	Guard   *page.Guard
	Payload int // directory of the group, or -1
	End     End
	keeper  *guardKeeper
}

// Over is nil unless main has to do more: it says why nothing could be started, or reports the end.
func (l *Launcher) Over() *Ended {
	if !l.over {
		return nil
	}
	return &Ended{l.page, &l.keeper.guard, int(l.group.payload), l.end, &l.keeper}
}

// Dismiss waits until the guard has exited, when the group is removed.
func (e *Ended) Dismiss(within int64) { e.keeper.dismiss(page.WordDone, within) }

// ExitWithoutMain ends the process as the main process has ended where no Go runtime can start.
func (l *Launcher) ExitWithoutMain() {
	if !HasProcesses() || !HasAddressSpace() || !HasData() {
		exitAs(l.page)
	}
}
