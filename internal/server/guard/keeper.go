// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package guard

import (
	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/page"
)

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

const (
	retryAfter = 100e6
	thawAfter  = 250e6
)

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

// isUnguarded reports whether a guard could not be replaced.
func (l *Launcher) isUnguarded() bool { return l.watch.retryAt != 0 }

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
