// SPDX-License-Identifier: Apache-2.0

package brain

import (
	"time"

	"github.com/mcpscope/mcpscope/internal/kernel/loop"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/server/idle"
	"github.com/mcpscope/mcpscope/internal/server/journal"
	"github.com/mcpscope/mcpscope/internal/server/lifecycle"
	"github.com/mcpscope/mcpscope/internal/server/page"
	"github.com/mcpscope/mcpscope/internal/server/policy"
)

// Between two looks there is no brain: the page has all that the next one needs.
// While the members are frozen, the guard thaws them at an event, and calls a brain.

// saveLooks writes to the page how far the looks of this brain have come.
func (a *actor) saveLooks() {
	looks := &a.server.Page.ByBrain.Looks
	now := time.Now()
	if a.sleeper != nil {
		a.sleeper.Policy.Save(&looks.Policy, func(t time.Time) int64 { return monotonic(t, now) })
	}
	check := a.life.IdleProgress()
	looks.Check = page.IdleCheck{
		NextCheck: monotonic(check.NextCheck, now),
		CallSince: monotonic(check.CallSince, now),
		CPU:       int64(check.CPU),
		Read:      check.Traffic.Read,
		Written:   check.Traffic.Written,
		Members:   check.Traffic.Members,
	}
	looks.Saved = true
}

// resumeLooks goes on with the looks of the brain before, if that has saved them. Otherwise it was killed,
// and may have frozen the members without a word about it.
//
//	looks      guard           state     members
//	saved      has not thawed  any       are as they were left
//	saved      has thawed      Idle      the event Woken counts that as a wake
//	saved      has thawed      Running   the guard has set that, as no brain could start: a wake, too
//	not saved  any             any       are thawed
func (a *actor) resumeLooks() {
	p := a.server.Page
	isSaved := p.ByBrain.Looks.Saved
	p.ByBrain.Looks.Saved = false
	a.beginLooks(isSaved)
	if isSaved {
		a.life.ResumeIdle(checkOn(&p.ByBrain.Looks.Check))
	}
	hasThawed := p.ByGuard.Roused
	p.ByGuard.Roused = false
	hasInput := p.ByGuard.InputCame
	p.ByGuard.InputCame = false
	if isSaved && !hasThawed {
		return
	}
	isFreezable := a.sleeper != nil && a.life.State != lifecycle.Idle
	switch {
	case isFreezable && isSaved:
		a.sleeper.Wake(time.Now(), hasInput)
	case isFreezable:
		a.sleeper.Thaw()
	}
	a.report(lifecycle.Woken)
}

// checkOn is the check of an idle timeout that the brain before has saved.
func checkOn(saved *page.IdleCheck) lifecycle.IdleProgress {
	return lifecycle.IdleProgress{
		NextCheck: fromMonotonic(saved.NextCheck),
		CPU:       time.Duration(saved.CPU),
		Traffic: lifecycle.Traffic{
			Read:    saved.Read,
			Written: saved.Written,
			Members: saved.Members,
		},
		CallSince: fromMonotonic(saved.CallSince),
	}
}

// beginLooks has a server that runs frozen whenever it is idle. isSaved: the page has what an earlier brain
// has seen.
func (a *actor) beginLooks(isSaved bool) {
	after := a.server.Config.Policy.IdleFreeze
	if after == 0 {
		return
	}
	a.sleeper = a.newSleeper(after, isSaved)
	if !isSaved {
		a.server.Group.Note(a.server.Config.Notes)
	}
}

// newSleeper returns nil, with a note, for a server that is never frozen.
func (a *actor) newSleeper(after time.Duration, isSaved bool) *idle.Sleeper {
	s := a.server
	if s.Group.IsTree() || s.Config.Engine != "" {
		s.Note("never frozen when idle: it is not in a cgroup of its own")
		return nil
	}
	if err := a.loop.Add(int(a.client.Server.Input), loop.TokenInput); err != nil { // input would not thaw it
		s.Note("never frozen when idle: " + err.Error())
		return nil
	}
	rule := idle.New(after, time.Now())
	if isSaved {
		rule = idle.Restore(after, &s.Page.ByBrain.Looks.Policy, fromMonotonic)
	}
	rule.IsAgent = a.client.Server.Terminal >= 0
	sleeper := idle.NewSleeper(rule, s.Group, a.client)
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

// lookIfDue takes a Look that is due, when nothing else has happened, and handles its result. A server
// that is being stopped is not frozen again.
func (a *actor) lookIfDue() {
	if a.life.State > lifecycle.Idle {
		a.sleeper = nil
	}
	now := time.Now()
	if a.sleeper == nil || now.Before(a.sleeper.Policy.Due) {
		return
	}
	act := a.sleeper.Policy.Look(a.sleeper, now)
	if a.sleeper.HasReclaimed {
		a.life.Reclaimed = true
		a.server.Page.ByBrain.Looks.Reclaimed = true // the brain that stops the server is another one
	}
	switch act {
	case idle.Frozen:
		if a.sleeper.Policy.Used { // not after each ping
			const text = "frozen: idle until its client writes"
			journal.SubjectOf(a.server.Config).Log(journal.Frozen, systemd.Info, text)
		}
		a.sleeper.MarkFrozen(now)
		a.report(lifecycle.MembersFrozen)
		a.loop.Again(int(a.client.Server.Input), loop.TokenInput)
	case idle.Wake:
		a.report(lifecycle.Woken)
	case idle.None, idle.Reclaimed:
		if a.sleeper.Policy.Note != "" {
			a.server.Note(a.sleeper.Policy.Note)
			a.server.Group.AddNote(a.sleeper.Policy.Note)
		}
	}
}
