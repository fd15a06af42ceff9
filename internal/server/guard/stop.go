// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package guard

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/decide"
	"github.com/mcpscope/mcpscope/internal/server/page"
)

// stop has what a guard needs to see, and to do, to end a server.
type stop struct {
	page            *page.Page
	members         members
	launcher        int32 // socket, or -1 after the launcher's death
	search          tagSearch
	wantsContainers bool // the end waits for them to be removed
	wantsPrepared   bool // the members are asked when a helper has looked for those that are kept, or in use
	searchDueAt     int64
	sleepsSince     int64 // the member that search.sleeper has found
	sleeps          bool  // for long, at the last look
}

func (s *stop) begin(tag uint64, launcher int32) {
	s.launcher = launcher
	s.members.open(-1)
	s.search = tagSearch{tag: tag, procs: -1}
}

// reach has the members of a group reached, or of a tree (-1).
func (s *stop) reach(payload int32) {
	s.page.ByGuard.Payload = payload
	s.members.open(payload)
	s.search.procs = payload
}

// resume repeats what the guard before may have decided, and not done.
func (s *stop) resume() {
	seen := &s.page.ByGuard
	switch {
	case seen.Stop.State.Phase == decide.Terminating && !seen.Stop.Asked:
		s.ask()
	case seen.Stop.State.Phase > decide.Running:
		s.thaw()
	}
}

// step decides, and performs what was decided. It returns true when nothing of the server is left, or
// nothing that could be ended. failed are tasks that no helper can do.
func (s *stop) step(failed page.Tasks) (isOver bool) {
	times := page.TimesOf(s.page)
	state := &s.page.ByGuard.Stop.State
	if s.launcherEnds() {
		return false
	}
	for {
		facts := s.facts(failed)
		switch decide.Step(state, &facts, &times) {
		case decide.Thaw:
			s.thaw()
		case decide.Prepare:
			if !hasDaemon(s.members.payload, &s.page.ByLauncher, &s.members.buf) {
				s.page.ByGuard.Stop.NoDaemon = true
				continue
			}
			s.recordCause()
			s.wantsPrepared = true
			return false
		case decide.Ask:
			s.recordCause()
			s.claimEnd()
			s.ask()
		case decide.EndContainers:
			s.recordCause()
			s.wantsContainers = true
			return false
		case decide.Kill:
			s.recordCause()
			s.claimEnd()
			s.kill()
			return state.IsStuck() // events come before the next kill
		default:
			return state.Phase == decide.Gone || state.IsStuck()
		}
	}
}

// endsElsewhere is for a launcher that is about to end the server.
const endsElsewhere = 100e6

// wakesAt is when the next step is due without an event, or 0. No event says that the last member has ended.
func (s *stop) wakesAt() int64 {
	state := &s.page.ByGuard.Stop.State
	const waitEach = 5e6
	const waitLate = 50e6
	switch {
	case s.page.ByGuard.Tasks&page.End != 0:
		return 0
	case s.launcherEnds():
		return now() + endsElsewhere
	case state.Phase == decide.Killing:
		at := now()
		return at + min(max(state.KillingFor(at)/4, 100e3), waitEach)
	case state.Phase >= decide.Leaving && s.page.Order.TermGrace < 0:
		return now() + waitLate
	case state.Phase >= decide.Leaving:
		return now() + waitEach
	}
	return state.Deadline
}

// launcherEnds reports whether the launcher has found that nothing is left, and ends the server.
func (s *stop) launcherEnds() bool {
	hasReturned := s.page.ByLauncher.EndLeft == page.LeftReturned
	return page.HasLauncherClaim(s.page) && !hasReturned && s.launcherLives()
}

// claimEnd has the guard end the server. It fails if the launcher does.
func (s *stop) claimEnd() bool { return page.ClaimForGuard(s.page) || !s.launcherEnds() }

// recordCause says, for people too, why the server is ended.
func (s *stop) recordCause() {
	if page.SetCause(s.page) && s.members.payload >= 0 {
		text := causeText(s.page.ByGuard.Stop.Cause)
		value := uintptr(unsafe.Pointer(unsafe.StringData(text)))
		size := uintptr(len(text))
		sys(unix.SYS_FSETXATTR, uintptr(s.members.payload), address(attrEnding), value, size, 0)
	}
}

// isStopRecorded reads the other side of Attributes.RecordRequest: a guard may be killed before it reacts.
func isStopRecorded(payload int32) bool {
	requested := causeText(page.ByRequest)
	text := [32]byte{}
	addr := uintptr(unsafe.Pointer(&text))
	n, e := sys(unix.SYS_FGETXATTR, uintptr(payload), address(attrEnding), addr, unsafe.Sizeof(text), 0)
	if e != 0 || int(n) != len(requested) {
		return false
	}
	for i := range len(requested) {
		if text[i&31] != requested[i] {
			return false
		}
	}
	return true
}

// facts are what the guard sees now.
func (s *stop) facts(failed page.Tasks) decide.Facts {
	state := &s.page.ByGuard.Stop.State
	f := page.FactsOf(s.page, now())
	f.LauncherDead = s.launcher < 0
	f.Containers = s.hasContainers() && failed&page.EndContainers == 0
	f.Keeps = page.MayKeep(s.page) && failed&page.KeepMembers == 0
	f.SeeksUse = page.MayFindUse(s.page) && failed&page.FindUse == 0
	f.Abandoned = page.IsAbandoned(s.page) || page.SeeksHolder(s.page) && failed&page.FindHolder != 0
	f.MainEnded = s.mainHasEnded()
	if f.MainEnded && state.Phase <= decide.Grace && s.launcherLives() && s.mainWasStarter() {
		s.page.ByGuard.Stop.Starter = true
		f.MainEnded = false
	}
	switch {
	case f.LauncherDead:
		const looks = 2 // one misses a process that is just forked
		f.Empty = !s.members.populated()
		for look := 0; f.Empty && look < looks; look++ {
			f.Empty = !s.search.exists()
		}
	case f.MainEnded:
		f.Empty = s.page.ByLauncher.Childless && !s.members.populated()
	case state.Phase == decide.Grace:
		f.Unread = isUnread(s.page, f.Abandoned)
	}
	if state.KillingFor(f.Now) >= decide.LooksAfter && s.maySearch(f.Now) {
		s.lookWhy(&f)
	}
	f.Sleeps = s.sleeps
	return f
}

// lookWhy finds out why a kill lasts: a member sleeps or may not be signalled, or none is left and a frozen
// launcher does not say so. Members that wait for a lock of the kernel sleep, too, but one that is stuck does
// so at each look.
func (s *stop) lookWhy(f *decide.Facts) {
	const isStuckAfter = 2e9
	before := s.search.sleeper.pid
	s.search.findSleeper()
	if s.search.sleeper.pid != before {
		s.sleepsSince = f.Now
	}
	s.sleeps = s.search.sleeper.pid != 0 && f.Now-s.sleepsSince >= isStuckAfter
	isEmpty := s.search.sleeper.pid == 0 && !s.members.populated() && !s.search.exists()
	f.Empty = f.Empty || isEmpty
	f.MainEnded = f.MainEnded || isEmpty
}

// maySearch reports whether to visit all processes again while the group has members. With a thousand servers
// that end at once these searches would keep them from ending: so they take a small part of the time.
func (s *stop) maySearch(at int64) bool {
	return at >= s.searchDueAt || s.members.payload < 0 || !s.members.populated()
}

// searched says how long a search took that has ended now.
func (s *stop) searched(began int64) {
	const pause = 20 // times as long
	ended := now()
	s.searchDueAt = ended + pause*(ended-began)
}

// mainHasEnded reports whether the main process has, and the rest of the server is to end. The launcher is
// the first one to look whether there is a rest, but in a stop.
func (s *stop) mainHasEnded() bool {
	isStopping := s.page.ByGuard.Stop.State.Phase >= decide.Terminating
	return s.page.ByLauncher.EndLeft != page.NotLeft || isStopping && s.page.Exited()
}

// mainWasStarter reports whether the main process has ended well and soon, and another member has the
// client's pipes: then that is the server.
func (s *stop) mainWasStarter() bool {
	const soon = 10e9
	launcher := &s.page.ByLauncher
	isSoon := launcher.ExitedAt-launcher.StartedAt < soon
	hasEndedWell := s.page.Exited() && s.page.Status() == 0
	if !isSoon || !hasEndedWell || !s.page.Started.Side.Conveyed {
		return false
	}
	return s.search.hasPipes(&s.page.Started)
}

// hasContainers reports whether a helper has to remove containers before the members are killed.
func (s *stop) hasContainers() bool {
	return s.page.Order.ContainersFirst && !s.page.ByHelper.ContainersGone
}

func (s *stop) launcherLives() bool {
	return s.launcher >= 0 && !endedWithin(s.page.FD.Launcher, 0)
}

// thaw lets all members run that are frozen, by whomever. In a tree they are stopped ones.
func (s *stop) thaw() {
	if s.members.payload >= 0 {
		s.members.thaw()
		return
	}
	s.search.continueStopped()
}

// ask sends all members the signal of the stop.
func (s *stop) ask() {
	s.members.thaw()
	sig, mainHas := signalOfStop(s.page)
	main := s.page.ByLauncher.MainPID
	s.page.Found.Stopped.Total = 0
	s.search.listIn(&s.page.Found.Stopped)
	s.search.main = main
	s.search.ask(sig, mainHas)
	s.search.list = 0
	s.page.ByGuard.Stop.Asked = true
	continueLauncher(s.page)
}

// signalOfStop is the client's signal, or SIGTERM. mainHas: the main process has got it.
func signalOfStop(on *page.Page) (sig unix.Signal, mainHas bool) {
	if launcher := &on.ByLauncher; launcher.SignalsGot > 0 {
		first := &launcher.Signals[0]
		return unix.Signal(first.Number), first.ToMain
	}
	return unix.SIGTERM, false
}

// kill kills those in the group, those that descend from the launcher, and those with the tag. cgroup.kill is
// atomic against forks, so nothing is frozen before: the guard may have been moved into the group.
func (s *stop) kill() {
	s.search.main = 0
	isFirst := s.page.Found.Killed.Total == 0
	if isFirst {
		s.search.listIn(&s.page.Found.Killed)
		s.search.listGroup()
	}
	s.members.kill()
	began := now()
	if !isFirst && !s.maySearch(began) {
		return
	}
	if isFirst && s.members.payload < 0 { // no member is to see the death of another
		s.search.signalEach(unix.SIGSTOP)
		s.search.list = 0
	}
	if s.launcherLives() {
		continueLauncher(s.page)
		sendWord(s.launcher, page.WordKill)
	}
	s.search.signalEach(unix.SIGKILL)
	s.search.list = 0
	s.searched(began)
}

// writeLeft has the launcher say that something is left, where no helper can.
func writeLeft(on *page.Page) {
	const text = "a process that SIGKILL has not ended\n"
	for i := range len(text) {
		on.ByHelper.Left[i] = text[i]
	}
}

// continueLauncher continues a launcher that was stopped, which would not see the end.
func continueLauncher(on *page.Page) {
	sys(unix.SYS_PIDFD_SEND_SIGNAL, uintptr(on.FD.Launcher), uintptr(unix.SIGCONT), 0, 0, 0)
}

// causeText is the text of a causes.Cause.
func causeText(c page.Cause) string {
	all := [...]string{
		"", "main-exited", "out-of-memory", "stdin-closed", "stdout-closed", "client-died", "signal",
		"launcher-gone", "stop-requested", "idle-timeout", "", "", "", "", "", "",
	}
	return all[c&15]
}
