// SPDX-License-Identifier: Apache-2.0

//go:build linux

package brain

import (
	"time"

	"github.com/mcpscope/mcpscope/internal/kernel/loop"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/server/idle"
	"github.com/mcpscope/mcpscope/internal/server/lifecycle"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// beginRest is for when the server runs. A later brain stops it.
func (b *Brain) beginRest() {
	after := b.Config.Policy.IdleFreeze
	switch {
	case after == 0:
		return
	case b.Group.Payload == nil || b.Config.Engine != "":
		b.Note("never frozen when idle: it is not in a cgroup of its own")
	default:
		b.rest = &idle.Rest{Policy: idle.New(after, time.Now()), Group: b.Group, Client: b.Client}
		_ = b.Loop.Add(b.Client.Input.FD(), loop.TokenInput) // a server without input is never frozen
		if after < protocol.IdleFreezeLeast {
			b.Note("an idle-freeze below " + protocol.IdleFreezeLeast.String() +
				" can freeze a server during a call, and delay the answer by a minute")
		}
	}
	b.Group.Note(b.Notes)
}

// lookAtRest is for when nothing else has happened. A server that is being stopped is not frozen again.
func (b *Brain) lookAtRest() {
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
		b.Loop.Again(b.Client.Input.FD(), loop.TokenInput)
	case idle.Reclaimed:
		b.life.Reclaimed = true
	case idle.Wake:
		b.report(lifecycle.Woken)
	case idle.None:
		if b.rest.Note != "" {
			b.Note(b.rest.Note)
			b.Group.Note(b.Notes)
		}
	}
}
