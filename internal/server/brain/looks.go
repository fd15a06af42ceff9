// SPDX-License-Identifier: Apache-2.0

package brain

import (
	"time"

	"github.com/mcpscope/mcpscope/internal/server/idle"
	"github.com/mcpscope/mcpscope/internal/server/lifecycle"
)

// Between two looks there is no brain: the page has all that the next one needs.
// While the members are frozen, the guard thaws them at an event, and calls a brain.

// keepLooks writes what the next brain needs to the page.
func (b *Brain) keepLooks() {
	looks := &b.Page.Looks
	if b.rest != nil {
		now := time.Now()
		b.rest.Save(looks, func(t time.Time) int64 { return monotonic(t, now) })
	}
	check := b.life.Check()
	looks.CheckAt = monotonic(check.At, time.Now())
	looks.CheckCPU = int64(check.CPU)
	looks.CheckRead = check.Traffic.Read
	looks.CheckWritten = check.Traffic.Written
	looks.CheckMembers = check.Traffic.Members
	looks.CheckAsked = monotonic(check.Asked, time.Now())
	looks.Kept = true
}

// resumeLooks goes on with the looks of the brain before. One that was killed has kept nothing, and may have
// frozen the members.
func (b *Brain) resumeLooks() {
	p := b.Page
	kept := p.Looks.Kept
	p.Looks.Kept = false
	b.beginRest(kept)
	if kept {
		b.life.ResumeCheck(lifecycle.Check{
			At: fromMonotonic(p.Looks.CheckAt), CPU: time.Duration(p.Looks.CheckCPU),
			Traffic: lifecycle.Traffic{
				Read: p.Looks.CheckRead, Written: p.Looks.CheckWritten, Members: p.Looks.CheckMembers,
			},
			Asked: fromMonotonic(p.Looks.CheckAsked),
		})
	}
	roused := p.ByGuard.Roused
	p.ByGuard.Roused = false
	input := p.ByGuard.InputCame
	p.ByGuard.InputCame = false
	switch {
	case kept && !roused:
		return
	case b.rest == nil || b.life.State == lifecycle.Idle: // which wakes them
	case kept:
		b.rest.Wake(time.Now(), input)
	default:
		b.rest.Thaw()
	}
	b.report(lifecycle.Woken)
}

// policy is that of the looks so far, or a new one.
func (b *Brain) policy(after time.Duration, kept bool) *idle.Policy {
	if kept {
		return idle.Restore(after, &b.Page.Looks, fromMonotonic)
	}
	return idle.New(after, time.Now())
}
