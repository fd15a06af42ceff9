// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package guard

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/page"
)

// An agent that has ended may have left processes. For each of their execves there has to be a process that
// has the listener of the filter: without one it fails with ENOSYS. So a guard that has no watcher any more
// has a spare, a copy of itself that waits. At the death of the guard it is the guard, and has a spare.

// spare is that of a guard.
type spare struct {
	pid     int32
	pidfd   int32   // -1 without one
	startAt int64   // not earlier
	guard   int32   // in the spare: a pidfd of the guard
	memory  uintptr // and where that has its memory
}

// spareDueAt forks a spare if one is missing, and returns when that has to be tried again, or 0.
func (g *gateGuard) spareDueAt() int64 {
	isAlone := g.over && !g.watcher.isRunning() && g.startAt == 0 // there will be no watcher
	if !isAlone || g.spare.pidfd >= 0 || hasNoCaller(g.polls[gateListener].Fd) {
		return 0
	}
	if now() < g.spare.startAt {
		return g.spare.startAt
	}
	g.spare.startAt = now() + restartPause
	g.forkSpare()
	if g.spare.pidfd >= 0 {
		return 0
	}
	return g.spare.startAt
}

// hasNoCaller reports whether no process has the filter any more.
func hasNoCaller(listener int32) bool {
	polled := unix.PollFd{Fd: listener}
	waitFor(uintptr(unsafe.Pointer(&polled)), 1, 1) // the deadline is over
	return listener < 0 || polled.Revents != 0
}

// forkSpare forks a child of the guard. It has the same descriptors, and memory of its own.
func (g *gateGuard) forkSpare() {
	own, e := sys(unix.SYS_PIDFD_OPEN, uintptr(g.page.ByGuard.GuardPID), 0, 0, 0, 0)
	if e != 0 {
		return
	}
	addr, e := mapChild(unsafe.Sizeof(gateGuard{}), roleSpare)
	if e == 0 {
		g.spare.guard = int32(own)
		g.spare.memory = uintptr(unsafe.Pointer(g))
		for at := unsafe.Sizeof(child{}); at < unsafe.Sizeof(gateGuard{}); at++ {
			from := g.spare.memory + at
			to := addr + at
			**(**byte)(unsafe.Pointer(&to)) = **(**byte)(unsafe.Pointer(&from))
		}
		c := *(**child)(unsafe.Pointer(&addr))
		if c.forkHere(shareNothing, noExitSignal) == 0 {
			g.spare.pid = c.pid
			g.spare.pidfd = c.pidfd
		}
		c.unmap()
	}
	closeFD(int32(own))
}

// forget is for one that is dead.
func (s *spare) forget() {
	closeFD(s.pidfd)
	s.pidfd = -1
	sys(unix.SYS_WAIT4, uintptr(s.pid), 0, unix.WALL, 0, 0)
}

// spareMain is the whole life of a spare.
func (g *gateGuard) spareMain() {
	setName("mcpscope-spare\x00")
	sys(unix.SYS_MUNMAP, g.spare.memory, g.process.child.size, 0, 0, 0)
	guard := unix.PollFd{Fd: g.spare.guard, Events: unix.POLLIN}
	for guard.Revents == 0 {
		waitFor(uintptr(unsafe.Pointer(&guard)), 1, 0)
	}
	closeFD(g.spare.guard)
	g.spare.startAt = 0
	setName(page.GatewayGuard + "\x00")
	g.page.ByGuard.GuardPID = ownPID()
	g.answerForEver()
}

func setName(name string) { sys(unix.SYS_PRCTL, unix.PR_SET_NAME, address(name), 0, 0, 0) }
