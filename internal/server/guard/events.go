// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package guard

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/page"
)

// Events that the guard of a server polls for.
const (
	pollLauncher = iota
	pollSignals
	pollHelper
	pollMain
	pollStdin // and the others of page.Page.ByGuard.Happened, in their order
	pollStdout
	pollClient
	pollInput // while the members are idle and there is no helper
	pollCount // a power of two, so that a mask bounds an index: raw code can't panic
)

// guardEvents are the descriptors that the guard of a server polls, -1 for none.
type guardEvents struct {
	polls       [pollCount]unix.PollFd
	mainEndedAt int64 // when the main process was seen to have ended, or 0
}

// watchClient has all descriptors polled but those that come later.
func (v *guardEvents) watchClient(on *page.Page, launcher, signals int32) {
	for i := range v.polls {
		v.polls[i] = unix.PollFd{Fd: -1, Events: unix.POLLIN}
	}
	v.polls[pollLauncher].Fd = launcher
	v.polls[pollSignals].Fd = signals
	v.watchEnd(on, page.StdinClosed, on.FD.Stdin)
	v.watchEnd(on, page.StdoutClosed, on.FD.Stdout)
	v.watchEnd(on, page.ClientDied, on.FD.Client)
}

// watchEnd leaves out an event that the guard before has seen.
func (v *guardEvents) watchEnd(on *page.Page, event int, fd int32) {
	if on.ByGuard.Happened[event&(page.EventsRoom-1)] == 0 {
		v.polls[(pollStdin+event)&(pollCount-1)].Fd = fd
	}
}

// watchMain polls the main process: a launcher that was stopped does not see its end.
func (v *guardEvents) watchMain(on *page.Page) {
	isSeen := v.polls[pollMain].Fd >= 0 || v.mainEndedAt != 0
	if isSeen || on.ByLauncher.MainPID <= 0 || on.Exited() {
		return
	}
	fd, e := sys(unix.SYS_PIDFD_OPEN, uintptr(on.ByLauncher.MainPID), 0, 0, 0, 0)
	if e == 0 { // only polled: it may be another process's by now
		v.polls[pollMain].Fd = int32(fd)
	}
}

// reapWithin is the time for the launcher to reap the main process.
const reapWithin = 100e6

// reapDueAt is when the launcher is late, or 0.
func (v *guardEvents) reapDueAt(s *stop) int64 {
	if v.mainEndedAt == 0 || s.page.Exited() || !s.launcherLives() {
		return 0
	}
	return v.mainEndedAt + reapWithin
}

// awaitReaped continues a launcher that has not reaped the main process: it may be stopped.
func (v *guardEvents) awaitReaped(s *stop) {
	due := v.reapDueAt(s)
	if due != 0 && now() >= due {
		continueLauncher(s.page)
		v.mainEndedAt = now()
	}
}

// wait returns at an event, and at the deadline if that is not 0.
func (v *guardEvents) wait(deadline int64) syscall.Errno {
	_, e := waitFor(uintptr(unsafe.Pointer(&v.polls)), pollCount, deadline)
	return e
}

func (v *guardEvents) has(event int) bool { return v.polls[event&(pollCount-1)].Revents != 0 }

// takeEnd reports an event that happens once: its descriptor is not polled again.
func (v *guardEvents) takeEnd(event int) bool {
	poll := &v.polls[event&(pollCount-1)]
	if poll.Revents == 0 {
		return false
	}
	poll.Fd = -1
	poll.Revents = 0
	return true
}

// watch waits for events, and reacts to them.
func (g *serverGuard) watch() {
	g.events.polls[pollHelper].Fd = g.helper.sock
	g.events.polls[pollInput].Fd = -1
	if g.page.ByHelper.Frozen {
		g.events.polls[pollInput].Fd = g.page.FD.Input
	}
	e := g.events.wait(g.deadline())
	if e != 0 { // EINTR, after it was stopped
		return
	}
	if g.events.has(pollLauncher) {
		g.receiveLauncher()
	}
	if g.events.has(pollSignals) {
		g.receiveSignals()
	}
	for event := page.StdinClosed; event <= page.ClientDied; event++ {
		if g.events.takeEnd(pollStdin + event) {
			g.happened(event)
		}
	}
	main := g.events.polls[pollMain].Fd
	if g.events.takeEnd(pollMain) {
		closeFD(main)
		g.events.mainEndedAt = now()
	}
	if g.events.has(pollInput) {
		g.page.ByGuard.Thaw.ForInput = true
		g.wake()
	}
	if g.events.has(pollHelper) {
		g.receiveHelper()
	}
	g.react()
}

// happened writes the time of an event to the page.
func (g *serverGuard) happened(event int) {
	g.page.ByGuard.Happened[event&(page.EventsRoom-1)] = now()
	g.wake()
}

// wake thaws members that are frozen since they are idle: they have to react to an event.
func (g *serverGuard) wake() {
	if !g.page.ByHelper.Frozen {
		return
	}
	g.thawIdle()
	g.page.ByGuard.Thaw.IsNew = true
	g.page.ByGuard.Thaw.At = now()
	g.helper.announce()
}

// thawIdle undoes what a helper may have frozen.
func (g *serverGuard) thawIdle() {
	g.page.ByHelper.Frozen = false
	g.stop.members.thawIdle()
}
