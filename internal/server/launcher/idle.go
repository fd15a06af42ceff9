// SPDX-License-Identifier: Apache-2.0

//go:build linux

package launcher

import (
	"time"

	"github.com/mcpscope/mcpscope/internal/kernel/loop"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/idle"
	"github.com/mcpscope/mcpscope/internal/server/lifecycle"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// beginRest is for a brain that has the client's descriptors: a later one stops the server.
func (b *brain) beginRest() error {
	after, engine := b.config.Policy.IdleFreeze, b.config.Engine()
	g, grouped := b.group.(*group.ControlGroup)
	switch {
	case after == 0 || b.client == nil:
		return nil
	case !grouped:
		b.note("never frozen when idle: the backend tree has no group that could be frozen")
		return nil
	case engine != "":
		b.note("never frozen when idle: it runs in a container of " + engine)
		return nil
	case after < protocol.IdleFreezeLeast:
		b.note("an idle-freeze below " + protocol.IdleFreezeLeast.String() +
			" can freeze a server during a call, and delay the answer by a minute")
	}
	b.rest = &idle.Rest{Policy: idle.New(after, time.Now()), Group: g, Client: b.client}
	return b.loop.Add(b.client.Input.FD(), loop.TokenInput)
}

// restDue is the zero time for never.
func (b *brain) restDue() time.Time {
	if b.rest == nil || !b.begun || b.life.State > lifecycle.Idle {
		return time.Time{}
	}
	return b.rest.Due
}

// lookAtRest is for when nothing else has happened.
func (b *brain) lookAtRest() {
	now := time.Now()
	if due := b.restDue(); due.IsZero() || now.Before(due) {
		return
	}
	switch b.rest.Act(now) {
	case idle.Freeze:
		b.report(lifecycle.MembersFrozen)
		b.loop.Again(b.client.Input.FD(), loop.TokenInput)
	case idle.Reclaim:
		b.life.Reclaimed = true
	case idle.Thaw:
		b.report(lifecycle.Woken)
	case idle.Stay:
		if b.rest.Note != "" {
			b.note(b.rest.Note)
			b.group.Note(b.notes)
		}
	}
}

func (b *brain) wakeMembers() {
	if b.rest != nil {
		b.rest.Wake(time.Now())
		return
	}
	_ = b.group.Members().SetFrozen(false) // a later brain; gone is as good
}
