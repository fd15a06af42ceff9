// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package guard

import (
	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/page"
)

// guardKeeper is the guard as its launcher has it, which replaces one that is dead or does not react.
type guardKeeper struct {
	page       *page.Page
	guard      page.Guard
	lasting    lasting
	announced  int64 // when it was last sent news
	reactBy    int64 // when a guard that has not reacted is killed; 0 while it need not react
	thawAt     int64 // when such a guard is thawed and continued next, as it may be frozen or stopped
	thawed     bool  // it was thawed since it has to react
	retryAt    int64 // when a guard is forked that could not be forked before, or 0
	replacedAt int64 // when the last one was forked in the place of another
}

const (
	startWithin  = 5e9 // for a guard that has to react
	replaceEvery = 5e6 // guards that die at once, one after the other, would take a processor
	retryAfter   = 100e6
	thawAfter    = 250e6
	remindAfter  = 1e9 // a step of a stop that is so late
)

// announce sends news of the page. A member may have stopped the guard.
func (k *guardKeeper) announce() {
	k.page.ByLauncher.News++
	k.continueGuard()
	sendWord(int32(k.guard.Sock), page.WordLook)
	k.announced = now()
	if k.reactBy == 0 {
		k.expect(k.announced)
	}
}

// expect has the guard react from that time on.
func (k *guardKeeper) expect(since int64) {
	k.reactBy = since + startWithin
	k.thawAt = since + thawAfter
	k.thawed = false
}

func (k *guardKeeper) continueGuard() { signalBy(k.guard.PIDFD, unix.SIGCONT) }

// deadline is when check, or replace, has something to do; 0 for never.
func (k *guardKeeper) deadline() int64 {
	switch {
	case k.retryAt != 0:
		return k.retryAt
	case k.reactBy != 0:
		return k.thawAt
	}
	return k.remindAt()
}

// remindAt is when the guard is sent news once more, or 0: a member may freeze or stop it, and its brain, at
// any moment of a stop.
func (k *guardKeeper) remindAt() int64 {
	step := k.page.ByGuard.Stop.State.Deadline
	if step == 0 {
		return 0
	}
	return max(step, k.announced) + remindAfter
}

// check has the guard react to news, or remind it of the news if it has reacted and a step of a stop is late.
//
// A guard has reacted when it has read all news and has called the brain that settles the start, which a
// guard does once: without that no manager knows the server.
func (k *guardKeeper) check(g *serverGroup) {
	at := now()
	hasToReact := k.reactBy != 0
	if !hasToReact {
		k.remind(g, at)
		return
	}
	hasRead := k.page.ByGuard.NewsRead == k.page.ByLauncher.News
	hasReacted := hasRead && !k.page.Unsettled()
	settlesLater := hasRead && at < k.page.ByBrain.CallBrainAt
	switch {
	case hasReacted:
		k.reactBy = 0
	case settlesLater: // it has until then to call that brain
		k.expect(k.page.ByBrain.CallBrainAt)
	case k.thawed && at >= k.reactBy: // neither a thaw nor SIGCONT has helped: it may be traced
		k.reactBy = 0
		signalBy(k.guard.PIDFD, unix.SIGKILL)
	case at >= k.thawAt:
		k.thawAgain(g, at)
	}
}

// remind sends the news once more when that is due.
func (k *guardKeeper) remind(g *serverGroup, at int64) {
	due := k.remindAt()
	if due != 0 && at >= due {
		g.thawGuard()
		k.announce()
	}
}

// thawAgain thaws and continues a guard that has not reacted yet. This repeats: a member may freeze or stop
// the guard again.
func (k *guardKeeper) thawAgain(g *serverGroup, at int64) {
	if !k.thawed { // this process may have been frozen, too
		k.reactBy = at + startWithin
	}
	k.thawed = true
	k.thawAt = at + thawAfter
	g.thawGuard()
	k.continueGuard()
}

// forget closes the descriptors of a guard that is dead, counts and reaps it.
func (k *guardKeeper) forget() {
	if k.isMissing() {
		return
	}
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
	k.retryAt = 0
	sleep(max(k.replacedAt+replaceEvery-now(), 0))
	k.replacedAt = now()
	k.lasting.near = true
	none := Gate{}
	g, e := k.lasting.fork(k.page, &none, true)
	if e != 0 {
		k.retryAt = now() + retryAfter
		return false
	}
	k.guard = g
	return true
}

// isMissing reports whether a guard could not be replaced.
func (k *guardKeeper) isMissing() bool { return k.retryAt != 0 }

// retries reports whether it is time to try that again.
func (k *guardKeeper) retries() bool { return k.isMissing() && now() >= k.retryAt }

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
