// SPDX-License-Identifier: Apache-2.0

//go:build linux

package launcher

import (
	"time"

	"github.com/mcpscope/mcpscope/internal/kernel/loop"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/idle"
	"github.com/mcpscope/mcpscope/internal/server/lifecycle"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// beginRest is for when the server runs. A later brain stops it.
func (b *brain) beginRest() {
	after := b.config.Policy.IdleFreeze
	g, grouped := b.group.(*group.ControlGroup)
	switch {
	case after == 0:
		return
	case !grouped || b.config.Engine() != "":
		b.note("never frozen when idle: it is not in a cgroup of its own")
	default:
		b.rest = &idle.Rest{Policy: idle.New(after, time.Now()), Group: g, Client: b.client}
		_ = b.loop.Add(b.client.Input.FD(), loop.TokenInput) // a server without input is never frozen
		if after < protocol.IdleFreezeLeast {
			b.note("an idle-freeze below " + protocol.IdleFreezeLeast.String() +
				" can freeze a server during a call, and delay the answer by a minute")
		}
	}
	b.group.Note(b.notes)
}

// lookAtRest is for when nothing else has happened. A server that is being stopped is not frozen again.
func (b *brain) lookAtRest() {
	if b.life.State > lifecycle.Idle {
		b.rest = nil
	}
	now := time.Now()
	if b.rest == nil || now.Before(b.rest.Due) {
		return
	}
	switch b.rest.Look(b.rest, now) {
	case idle.Frozen:
		if b.rest.Used { // not after each ping
			b.subject().Log(protocol.EventFrozen, systemd.Info, "frozen: idle")
		}
		b.rest.MarkFrozen(now)
		b.report(lifecycle.MembersFrozen)
		b.loop.Again(b.client.Input.FD(), loop.TokenInput)
	case idle.Reclaimed:
		b.life.Reclaimed = true
	case idle.Wake:
		b.report(lifecycle.Woken)
	case idle.None:
		if b.rest.Note != "" {
			b.note(b.rest.Note)
			b.group.Note(b.notes)
		}
	}
}
