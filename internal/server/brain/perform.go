// SPDX-License-Identifier: Apache-2.0

package brain

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/kernel/linux"
	"github.com/mcpscope/mcpscope/internal/kernel/loop"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/server/container"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/idle"
	"github.com/mcpscope/mcpscope/internal/server/lifecycle"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// facts are for events before a stop alone, so there is a client's side.
type facts struct{ b *Brain }

// Unread: a server that is only starting has read nothing.
func (f facts) Unread() bool       { return !f.b.begun || f.b.Client.Unread() }
func (f facts) Blocked() bool      { return f.b.Client.Blocked() }
func (f facts) CPU() time.Duration { return f.b.Group.Members().CPU() }

func (f facts) Abandoned() bool {
	in := f.b.Client
	switch {
	case f.b.reign > 0, in.Stdin.Fired(): // the client is known, and no mere spawner
		return true
	case !in.Conveyed:
		return f.b.Config.Policy.OnClientDeath == protocol.StopOnClientDeath
	}
	return in.HeldByNobodyBut(f.b.Group.Members(), group.TagOf(f.b.Config.Group.ID))
}

func (b *Brain) perform(all []lifecycle.Action) {
	b.publish()
	for _, a := range all {
		switch a.Do {
		case lifecycle.SendSignal:
			b.recordOthers()
			freeze.Ask(b.Group.Members(), a.Signal)
			b.lookAgain()
		case lifecycle.ThawMembers:
			_ = b.Group.Members().Thaw() // it was removed
			b.lookAgain()
		case lifecycle.KillMembers:
			b.recordOthers()
			b.kill()
		case lifecycle.WakeMembers:
			if b.rest != nil { // a later brain stops them, which thaws
				b.rest.Wake(time.Now())
			}
		}
	}
}

const (
	emptyWithin = 3 * time.Millisecond // the kernel delays a notification for up to 10 ms
	lookFirst   = 5 * time.Millisecond
	lookMost    = 100 * time.Millisecond // a delayed notification can be lost; no event for a tree
)

// lookAgain: the group may be empty soon.
func (b *Brain) lookAgain() (empty bool) {
	empty, _ = freeze.AwaitEmpty(b.Group.Members(), time.Now().Add(emptyWithin))
	b.pause, b.lookAt = lookFirst, time.Now()
	return empty
}

func (b *Brain) look() {
	state := b.life.State
	if state < lifecycle.Terminating || state == lifecycle.Emptied || time.Now().Before(b.lookAt) {
		return
	}
	b.pause = min(2*max(b.pause, lookFirst), lookMost)
	b.lookAt = time.Now().Add(b.pause)
	if !group.Populated(b.Group.Members()) {
		b.report(lifecycle.GroupEmptied)
	}
}

// kill freezes and kills all members. It blocks: no other event matters.
func (b *Brain) kill() {
	if c := b.Config; container.EndsFirst(c.Engine) && c.Group.Backend != protocol.Tree {
		_ = b.Group.Members().Thaw() // the guard has frozen them for a later brain
		b.endContainers(0)
	}
	b.killAll(b.Group.Members(), "members may be left: ")
	b.report(lifecycle.GroupEmptied)
}

// The shell of a terminal knows the launcher alone. If ^Z stopped the launcher at once, the shell would
// take the terminal back while the server (top, less, an editor) still restores it. A server that ignores
// ^Z would be in the background. So the launcher stops only when the main process has stopped, which the
// guard writes to the page. Then the shell continues both: they are in one process group.

// stopToo stops this process by the same signal as the main process, unless that runs again. It returns
// when the shell has continued both.
func (b *Brain) stopToo(sig unix.Signal) {
	if !b.Terminal || b.life.State >= lifecycle.Terminating { // a kill of a tree begins with SIGSTOP
		return
	}
	st, err := proc.ReadStat(int(b.Page.MainPID))
	if err == nil && st.State == 'T' && st.PPID == int(b.Page.GuardPID) {
		linux.StopBy(sig)
	}
}

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
		_ = b.Loop.Add(int(b.Client.Input), loop.TokenInput) // a server without input is never frozen
		if after < protocol.IdleFreezeLeast {
			b.Note("an idle-freeze below " + protocol.IdleFreezeLeast.String() +
				" can freeze a server during a call, and delay the answer by a minute")
		}
	}
	b.Group.Note(b.Config.Notes)
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
			b.Config.Subject().Log(protocol.EventFrozen, systemd.Info, "frozen: idle")
		}
		b.rest.MarkFrozen(now)
		b.report(lifecycle.MembersFrozen)
		b.Loop.Again(int(b.Client.Input), loop.TokenInput)
	case idle.Reclaimed:
		b.life.Reclaimed = true
	case idle.Wake:
		b.report(lifecycle.Woken)
	case idle.None:
		if b.rest.Note != "" {
			b.Note(b.rest.Note)
			b.Group.Note(b.Config.Notes)
		}
	}
}
