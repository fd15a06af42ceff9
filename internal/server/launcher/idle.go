// SPDX-License-Identifier: Apache-2.0

//go:build linux

package launcher

import (
	"bytes"
	"time"

	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/idle"
	"github.com/mcpscope/mcpscope/internal/server/lifecycle"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// beginRest is for a brain that has the client's descriptors: a later one stops the server.
func (b *brain) beginRest(now time.Time) {
	after, engine := b.config.Policy.IdleFreeze, b.config.Engine()
	g, grouped := b.group.(*group.ControlGroup)
	if after > 0 && grouped && engine == "" && b.client != nil {
		b.rest = idle.Begin(after, g, b.client, b.loop, now)
	}
}

// noteRest is for a server that is never frozen, or sooner than is good for it.
func (b *brain) noteRest() {
	after, engine := b.config.Policy.IdleFreeze, b.config.Engine()
	_, grouped := b.group.(*group.ControlGroup)
	switch {
	case after == 0:
	case !grouped:
		b.note("never frozen when idle: the backend tree has no group that could be frozen")
	case engine != "":
		b.note("never frozen when idle: it runs in a container of " + engine)
	case after < protocol.IdleFreezeLeast:
		b.note("an idle-freeze below " + protocol.IdleFreezeLeast.String() +
			" can freeze a server during a call, and delay the answer by a minute")
	}
}

// restDue is the zero time for never.
func (b *brain) restDue(now time.Time) time.Time {
	if b.rest == nil || !b.begun || b.life.State > lifecycle.Idle {
		return time.Time{}
	}
	return b.rest.Due(now)
}

func (b *brain) lookAtRest() {
	now := time.Now()
	if due := b.restDue(now); due.IsZero() || now.Before(due) {
		return
	}
	switch b.rest.Look(now) {
	case idle.Freeze:
		b.report(lifecycle.MembersFrozen)
		if b.rest.Reclaimed && !b.life.Reclaimed {
			b.life.Reclaimed, b.config.Reclaimed = true, true
			_ = b.page.SetConfig(protocol.Encode(b.config)) // of the same length
		}
	case idle.Thaw:
		b.report(lifecycle.Woken)
	case idle.Stay:
		if note := b.rest.Note(); note != "" {
			b.note(note)
			b.group.Note(b.notes)
		}
	}
}

func (b *brain) wakeMembers() {
	if b.rest != nil {
		b.rest.Wake()
		return
	}
	_ = b.group.Members().SetFrozen(false) // a later brain; gone is as good
}

// lookFrozen is for a change of cgroup.events: a person may have thawed the members.
func (b *brain) lookFrozen(events []byte) {
	if b.life.State == lifecycle.Idle && bytes.Contains(events, []byte("frozen 0")) {
		b.report(lifecycle.Woken)
	}
}
