// SPDX-License-Identifier: Apache-2.0

package helper

import (
	"time"

	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/server/client"
	"github.com/mcpscope/mcpscope/internal/server/idle"
	"github.com/mcpscope/mcpscope/internal/server/journal"
	"github.com/mcpscope/mcpscope/internal/server/page"
	"github.com/mcpscope/mcpscope/internal/server/policy"
)

// looks are the observations of a server that may be idle. Between two of them there may be no helper: the
// page has all that the next one needs. While the members are frozen, the guard thaws them at an event.
type looks struct {
	server  *Server
	client  *client.Side
	sleeper *idle.Sleeper // nil for a server that is never frozen
	timeout *idle.Timeout // nil without --idle-timeout
}

// deadline is when the next look is due; the zero time for never.
func (l *looks) deadline() (due time.Time) {
	if l.timeout != nil {
		due = l.timeout.Due
	}
	if l.sleeper != nil && (due.IsZero() || l.sleeper.Policy.Due.Before(due)) {
		due = l.sleeper.Policy.Due
	}
	return due
}

// begin begins the looks. isSaved: the page has what an earlier helper has seen.
func (l *looks) begin(isSaved bool) {
	saved := &l.server.Page.ByHelper.Looks
	limits := l.server.Config.Facts.Policy
	if limits.IdleTimeout > 0 {
		l.timeout = &idle.Timeout{Due: time.Now().Add(limits.IdleTimeout)}
		if isSaved {
			l.timeout = timeoutOn(&saved.Check)
		}
	}
	if limits.IdleFreeze == 0 {
		return
	}
	l.sleeper = l.newSleeper(limits.IdleFreeze, isSaved)
	if !isSaved {
		l.server.Group.Attributes().Note(l.server.Config.Output.Notes)
	}
}

// save writes to the page how far the looks of this helper have come.
func (l *looks) save() {
	saved := &l.server.Page.ByHelper.Looks
	now := time.Now()
	if l.sleeper != nil {
		l.sleeper.Policy.Save(&saved.Policy, func(t time.Time) int64 { return monotonic(t, now) })
	}
	if t := l.timeout; t != nil {
		saved.Check = page.IdleCheck{
			NextCheck: monotonic(t.Due, now),
			CallSince: monotonic(t.CallSince, now),
			CPU:       int64(t.CPU),
			Read:      t.Traffic.Read,
			Written:   t.Traffic.Written,
			Members:   t.Traffic.Members,
		}
	}
	saved.Saved = true
}

// timeoutOn is the check of an idle timeout that the helper before has saved.
func timeoutOn(saved *page.IdleCheck) *idle.Timeout {
	return &idle.Timeout{
		Due: fromMonotonic(saved.NextCheck),
		CPU: time.Duration(saved.CPU),
		Traffic: idle.Traffic{
			Read:    saved.Read,
			Written: saved.Written,
			Members: saved.Members,
		},
		CallSince: fromMonotonic(saved.CallSince),
	}
}

// resume goes on with the looks of the helper before, if that has saved them. Otherwise it was killed, and
// may have frozen the members without a word about it.
func (l *looks) resume() {
	p := l.server.Page
	isSaved := p.ByHelper.Looks.Saved
	p.ByHelper.Looks.Saved = false
	l.begin(isSaved)
	if isSaved {
		l.noticeThaw()
		return
	}
	p.ByGuard.Thaw.IsNew = false
	p.ByGuard.Thaw.ForInput = false
	if l.sleeper != nil {
		l.sleeper.Thaw()
	}
}

// noticeThaw counts a thaw by the guard as one for its event.
func (l *looks) noticeThaw() {
	seen := &l.server.Page.ByGuard
	if !seen.Thaw.IsNew {
		return
	}
	hasInput := seen.Thaw.ForInput
	seen.Thaw.IsNew = false
	seen.Thaw.ForInput = false
	if l.sleeper != nil {
		l.sleeper.Wake(time.Now(), hasInput)
	}
}

// newSleeper returns nil, with a note, for a server that is never frozen.
func (l *looks) newSleeper(after time.Duration, isSaved bool) *idle.Sleeper {
	s := l.server
	if s.Group.IsTree() || s.Config.Facts.Engine != "" {
		s.Note("never frozen when idle: it is not in a cgroup of its own")
		return nil
	}
	rule := idle.New(after, time.Now())
	if isSaved {
		rule = idle.Restore(after, &s.Page.ByHelper.Looks.Policy, fromMonotonic)
	}
	rule.IsAgent = l.client.Server.Terminal >= 0
	sleeper := idle.NewSleeper(rule, s.Group, l.client)
	if after < policy.IdleFreezeLeast {
		s.Note("an idle-freeze below " + policy.IdleFreezeLeast.String() + " can freeze " + within(rule))
	}
	s.Note(sleeper.Policy.Note)
	return sleeper
}

// within names the work that a short idle-freeze can interrupt.
func within(rule *idle.Policy) string {
	if rule.IsAgent {
		return "an agent that works"
	}
	return "a server during a call, and delay the answer by a minute"
}

// lookIfDue looks once if that is due. A server that is being stopped is not frozen again.
func (l *looks) lookIfDue() {
	if l.server.isStopping() {
		l.sleeper = nil
		l.timeout = nil
	}
	now := time.Now()
	if l.timeout != nil && !now.Before(l.timeout.Due) {
		l.checkTimeout(now)
	}
	if l.sleeper != nil && !now.Before(l.sleeper.Policy.Due) {
		l.look(now)
	}
}

func (l *looks) checkTimeout(now time.Time) {
	s := l.server
	cpu, err := s.Group.Members().CPU()
	sample := idle.Sample{CPU: cpu, CPUKnown: err == nil, Traffic: l.traffic(), Unread: l.client.Unread()}
	if l.timeout.IsOver(sample, s.Config.Facts.Policy.IdleTimeout, now) {
		s.Page.ByHelper.IdleTooLong = true
		s.Guard.Look()
	}
}

// traffic is nothing for a server to which no calls come.
func (l *looks) traffic() (sum idle.Traffic) {
	if !l.client.Conveyed {
		return sum
	}
	pids, _ := l.server.Group.Membership().PIDs() // as far as they can be listed
	for _, pid := range pids {
		read, written, _ := idle.ReadTraffic(pid) // 0, if it has ended or is another user's
		sum.Read += read
		sum.Written += written
		if st, err := proc.ReadStat(pid); err == nil { // or it has ended
			sum.Members += st.StartTime<<22 | uint64(pid) // no pid is larger
		}
	}
	return sum
}

// look looks whether the server can be frozen, or may run for a moment.
func (l *looks) look(now time.Time) {
	s := l.server
	on := s.Page
	on.SeeSignals() // the guard thaws it for a later one
	act := l.sleeper.Policy.Look(l.sleeper)
	if l.sleeper.HasReclaimed {
		on.ByHelper.Looks.Reclaimed = true
	}
	switch act {
	case idle.Frozen:
		if l.sleeper.Policy.Used { // not after each ping
			const text = "frozen: idle until its client writes"
			journal.SubjectOf(s.Config).Log(journal.Frozen, systemd.Info, text)
		}
		l.sleeper.MarkFrozen(now)
		on.ByHelper.Frozen = true
		s.Guard.Look()
	case idle.Wake:
		on.ByHelper.Frozen = false
		l.sleeper.Wake(now, false)
	case idle.None, idle.Reclaimed:
		if l.sleeper.Policy.Note != "" {
			s.Note(l.sleeper.Policy.Note)
			s.Group.Attributes().AddNote(l.sleeper.Policy.Note)
		}
	}
}
