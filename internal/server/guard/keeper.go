// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package guard

import (
	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/page"
)

// guardKeeper is the guard as its launcher has it, which replaces one that is dead.
type guardKeeper struct {
	page       *page.Page
	guard      page.Guard
	lasting    lasting
	replacedAt int64 // when the last one was forked in the place of another
	isMissing  bool  // it is dead, and no other one could be forked
}

const (
	startWithin  = 5e9 // for a guard that ends
	replaceEvery = 5e6 // guards that die at once, one after the other, would take a processor
)

// announce has the guard read the page. Somebody may have stopped the guard.
func (k *guardKeeper) announce() {
	k.continueGuard()
	sendWord(int32(k.guard.Sock), page.WordLook)
}

func (k *guardKeeper) continueGuard() { signalBy(k.guard.PIDFD, unix.SIGCONT) }

// killEach is how long the launcher may wait for an event before it kills again, or 0: without a guard it
// kills the server itself.
func (k *guardKeeper) killEach() int64 {
	if k.isMissing {
		return 100e6
	}
	return 0
}

// forget closes the descriptors of a guard that is dead, counts and reaps it.
func (k *guardKeeper) forget() {
	closeFD(int32(k.guard.Sock))
	closeFD(int32(k.guard.PIDFD))
	k.guard.Sock = -1
	k.guard.PIDFD = -1
	k.page.ByLauncher.Guards++
	k.reap()
}

// replace forks another guard. That is a child of this process, which stays a subreaper: an orphan that init
// gets would be lost.
func (k *guardKeeper) replace() bool {
	sleep(max(k.replacedAt+replaceEvery-now(), 0))
	k.replacedAt = now()
	k.lasting.near = true
	none := Gate{}
	g, e := k.lasting.fork(k.page, &none, true)
	if e == 0 {
		k.guard = g
	}
	k.isMissing = e != 0
	return e == 0
}

// noWord is for a guard that dismiss sends nothing.
const noWord = 0

// dismiss waits until the guard has exited, when the group is removed, or was never made. A member may have
// stopped or traced it.
func (k *guardKeeper) dismiss(word byte, within int64) {
	if k.guard.PIDFD <= 0 { // it was never made, or could not be replaced
		return
	}
	ended := false
	for until := now() + within; !ended; {
		if word != noWord {
			sendWord(int32(k.guard.Sock), word)
		}
		k.continueGuard()
		if now() >= until {
			signalBy(k.guard.PIDFD, unix.SIGKILL)
		}
		ended = endedWithin(int32(k.guard.PIDFD), 100e6)
		k.reap()
	}
	closeFD(int32(k.guard.Sock))
	closeFD(int32(k.guard.PIDFD))
	k.guard = page.Guard{Page: k.page, Sock: -1, PIDFD: -1}
}

// release lets the guard exit when the group is removed. It is waited for only where it is a child of this
// process, or may still have what it was forked with: the client's pipes.
func (k *guardKeeper) release() {
	hasBegun := k.page.ByGuard.Payload >= 0
	if k.lasting.near || !hasBegun {
		k.dismiss(page.WordDone, startWithin)
		return
	}
	if k.guard.PIDFD > 0 {
		sendWord(int32(k.guard.Sock), page.WordDone)
		k.continueGuard()
	}
}

// abandon ends a guard that has no group yet.
func (k *guardKeeper) abandon() {
	if k.guard.PIDFD <= 0 {
		return
	}
	closeFD(int32(k.guard.Sock)) // the guard exits
	k.guard.Sock = -1
	k.dismiss(noWord, startWithin)
}

// reap waits for guards that have ended, and are children of this process.
func (k *guardKeeper) reap() {
	if k.lasting.near {
		sys(unix.SYS_WAIT4, ^uintptr(0), 0, unix.WNOHANG|unix.WCLONE, 0, 0)
	}
}
