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

// live is the launcher's process from the server's start on, and ends as the server ends. It returns where
// main has to do more than that: see Over.
func (l *Launcher) live() {
	for {
		for l.mainPID > 0 && l.end == NotEnded {
			polls, count, timeout := l.pollArguments()
			_, e := sys(unix.SYS_PPOLL, polls, count, timeout, 0, 0)
			l.react(e)
		}
		if l.finish() {
			return
		}
	}
}

// finish ends the process as the main process has ended, when nothing is left of the server. It returns true
// where main has to do that, and false where a brain has to end something first. Where no guard can be
// forked, there is no brain either: a sweep removes the group.
func (l *Launcher) finish() bool {
	on := l.page
	switch {
	case on.FailedStep != page.StepNone || l.end == MembersStuck:
		return true
	case l.end == BrainEndedIt:
		l.Dismiss(page.WordDone, startWithin)
		if on.Verbose || on.Left[0] != 0 {
			return true
		}
		l.exit()
		return true
	case on.Reports && !l.isUnguarded():
		// init would not reap a guard that was a child of this process, and one that is dead is replaced
		on.Returned = !on.Awaits && !l.guards.near && !endedWithin(int32(l.guard.PIDFD), 0)
		l.leaveToBrain()
		if on.Returned {
			l.exit()
		}
		return false
	case on.Awaits: // there is no brain
		return true
	case l.removeGroup() || l.isUnguarded():
		l.Dismiss(page.WordDone, startWithin)
		l.exit()
		return true
	}
	l.leaveToBrain()
	return false
}

// Over returns the page, the guard and the group where live has returned: main says why nothing could be
// started, or reports the end.
func (l *Launcher) Over() (on *page.Page, g *page.Guard, payload int, end End) {
	return l.page, &l.guard, int(l.payload), l.end
}

// leaveToMain has main report the end, with the client's signals. Those that end a server mean nothing any
// more: its status counts.
func (l *Launcher) leaveToMain() {
	const ignored = 1 // SIG_IGN
	for sig := uintptr(1); sig <= 64; sig++ {
		action := [4]uint64{ignored}
		if ending&(uint64(1)<<(sig-1)) != 0 {
			sys(unix.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&action)), 0, 8, 0)
		}
	}
	setMask(&l.signals.mask, nil)
	l.over = true
}

// IsOver reports whether main has to report the end.
func (l *Launcher) IsOver() bool { return l.over }

// ExitWithoutMain ends the process as the main process has ended where no Go runtime can start.
func (l *Launcher) ExitWithoutMain() {
	if !HasProcesses() || !HasAddressSpace() {
		l.exit()
	}
}

// leaveToBrain is for a group that a brain removes: a member may have made others in it.
func (l *Launcher) leaveToBrain() {
	l.end = NotEnded
	l.leaves = true
	l.page.LeftOvers = true
	atomic.StoreUint32(&l.page.Ender, page.NotEnding)
	l.tellGuard()
}

// leaveClient closes the descriptors that are the server's own, but stderr.
func (l *Launcher) leaveClient() {
	null, _ := openAt(unix.AT_FDCWD, "/dev/null\x00", unix.O_RDWR)
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
	keeps.add(int32(l.guard.Sock))
	keeps.add(int32(l.guard.PIDFD))
	keeps.add(l.signals.fd)
	keeps.add(l.payload)
	keeps.add(l.waiting)
	keeps.add(l.page.Handover.GuardLeaf) // or 0
	keeps.add(l.children)
	keeps.closeOthers()
}

// exit ends the process as the main process has ended. It returns if it does not know how.
func (l *Launcher) exit() {
	if !l.page.Exited {
		return
	}
	status := l.page.Status
	sig := uintptr(status & 0x7f)
	if sig == 0 {
		exit(uintptr(status >> 8 & 0xff))
	}
	none := unix.Rlimit{}
	action := [4]uint64{} // SIG_DFL
	mask := ^uint64(1 << (sig - 1))
	sys(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_CORE, uintptr(unsafe.Pointer(&none)), 0, 0)
	sys(unix.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&action)), 0, 8, 0)
	sys(unix.SYS_KILL, uintptr(unix.Getpid()), sig, 0, 0, 0)
	setMask(&mask, nil)
	exit(128 + sig) // as PID 1, which its own signals do not end
}

// removeGroup returns false where something keeps the group.
func (l *Launcher) removeGroup() bool {
	all := &l.page.Directories
	for at := 0; at < len(all) && all[at] != 0; at++ {
		if !l.removeDirectory(uintptr(unsafe.Pointer(&all[at]))) {
			return false
		}
		for at < len(all) && all[at] != 0 {
			at++
		}
	}
	return true
}

func (l *Launcher) removeDirectory(dir uintptr) bool {
	for try := int64(0); try < 32; try++ { // 10 ms
		_, e := sys(unix.SYS_UNLINKAT, uintptr(l.page.Parent), dir, unix.AT_REMOVEDIR, 0, 0)
		if e == 0 || e == syscall.ENOENT {
			return true
		}
		if e != syscall.EBUSY {
			return false
		}
		sleep(20e3 * (try + 1)) // no event says that the last process has left
	}
	return false
}
