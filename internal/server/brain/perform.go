// SPDX-License-Identifier: Apache-2.0

package brain

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/freeze"
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

func (f facts) Unread() bool                { return f.b.Client.Unread() }
func (f facts) Blocked() bool               { return f.b.Client.Blocked() }
func (f facts) CPU() (time.Duration, error) { return f.b.Group.Members().CPU() }

// Traffic is nothing for a server to which no calls come.
func (f facts) Traffic() (sum lifecycle.Traffic) {
	if !f.b.Client.Conveyed {
		return sum
	}
	pids, _ := f.b.Group.Members().Members() // as far as they can be listed
	for _, pid := range pids {
		read, written, _ := idle.Traffic(pid) // 0, if it has ended or is another user's
		sum.Read += read
		sum.Written += written
		if st, err := proc.ReadStat(pid); err == nil { // or it has ended
			sum.Members += st.StartTime<<22 | uint64(pid) // no pid is larger
		}
	}
	return sum
}

func (f facts) Abandoned() bool {
	in := f.b.Client
	switch {
	case in.Stdin.Fired():
		return true
	case !in.Conveyed:
		return f.b.Config.Policy.OnClientDeath == protocol.StopOnClientDeath
	}
	ours := []int{f.b.Config.Launcher.PID, int(f.b.Page.ByGuard.GuardPID)}
	return in.HeldByNobodyBut(f.b.Group.Members(), group.TagOf(f.b.Config.Group.ID), ours)
}

func (b *Brain) perform(all []lifecycle.Action) { b.performAs(all, false) }

// performAs performs the actions for an event; mainHas: the main process has got its signal.
func (b *Brain) performAs(all []lifecycle.Action, mainHas bool) {
	b.publish() // it fails for a brain that has been replaced
	for _, a := range all {
		if b.replaced() {
			return
		}
		switch a.Do {
		case lifecycle.SendSignal:
			b.leaveClient()
			b.recordOthers()
			b.measureEarly()
			b.signalMembers(a.Signal, mainHas)
			b.Page.ByBrain.MembersAsked = true
			b.expectEmpty()
		case lifecycle.ThawMembers:
			_ = b.Group.Members().Thaw() // it was removed
			b.expectEmpty()
		case lifecycle.KillMembers:
			b.recordOthers()
			b.kill()
		case lifecycle.WakeMembers:
			if b.rest != nil {
				b.rest.Wake(time.Now(), b.inputCame)
			}
		}
	}
}

// leaveClient is for a stop: no event of the client matters any more, and descriptors may be few. A watcher
// has the client's side of other servers as well.
func (b *Brain) leaveClient() {
	if !b.Config.Taken && b.Client != nil {
		b.Client.Close()
	}
}

// signalMembers sends a signal to each member; mainHas: the main process has got it from the launcher.
func (b *Brain) signalMembers(sig unix.Signal, mainHas bool) {
	if mainHas {
		freeze.Ask(b.Group.Members(), sig, int(b.Page.ByLauncher.MainPID))
		return
	}
	freeze.Ask(b.Group.Members(), sig)
}

const (
	emptyWithin     = 3 * time.Millisecond // the kernel delays a notification for up to 10 ms
	emptyCheckFirst = 5 * time.Millisecond
	emptyCheckMost  = 100 * time.Millisecond // a delayed notification can be lost; no event for a tree
)

// expectEmpty: the group may be empty soon.
func (b *Brain) expectEmpty() (empty bool) {
	empty, _ = freeze.AwaitEmpty(b.Group.Members(), time.Now().Add(emptyWithin))
	empty = empty || b.isChildlessTree()
	b.pause = emptyCheckFirst
	b.emptyCheckAt = time.Now()
	return empty
}

func (b *Brain) checkEmpty() {
	state := b.life.State
	if state < lifecycle.Terminating || state == lifecycle.Emptied || time.Now().Before(b.emptyCheckAt) {
		return
	}
	b.pause = min(2*max(b.pause, emptyCheckFirst), emptyCheckMost)
	b.emptyCheckAt = time.Now().Add(b.pause)
	if !b.mayBePopulated() {
		b.report(lifecycle.GroupEmptied)
	}
}

func (b *Brain) mayBePopulated() bool {
	return !b.isChildlessTree() && group.Populated(b.Group.Members())
}

// isChildlessTree is for a tree whose launcher lives and has no child: with hidepid=2 a brain does not see
// it.
func (b *Brain) isChildlessTree() bool {
	return b.Group.Payload == nil && b.Page.ByLauncher.Childless && b.launcherLives()
}

// kill freezes and kills all members. It blocks: no other event matters.
func (b *Brain) kill() {
	if c := b.Config; container.EndsFirst(c.Engine) && c.Group.Backend != protocol.Tree {
		_ = b.Group.Members().Thaw() // the guard has frozen them for a later brain
		b.endContainers(0)
	}
	b.leaveClient()
	b.killAll(b.Group.Members(), "members may be left: ")
	if !b.Config.Taken && len(b.stuck) == 0 && b.mayBePopulated() {
		b.helpless = true
		b.quits = true
		return
	}
	b.report(lifecycle.GroupEmptied)
}

// beginRest is for when the server runs. kept: the page has what an earlier brain has seen.
func (b *Brain) beginRest(kept bool) {
	after := b.Config.Policy.IdleFreeze
	switch {
	case after == 0:
		return
	case b.Group.Payload == nil || b.Config.Engine != "":
		b.Note("never frozen when idle: it is not in a cgroup of its own")
	default:
		if err := b.Loop.Add(int(b.Client.Input), loop.TokenInput); err != nil { // input would not thaw it
			b.Note("never frozen when idle: " + err.Error())
			break
		}
		b.rest = idle.NewRest(b.policy(after, kept), b.Group, b.Client)
		if after < protocol.IdleFreezeLeast {
			b.Note("an idle-freeze below " + protocol.IdleFreezeLeast.String() +
				" can freeze a server during a call, and delay the answer by a minute")
		}
		b.Note(b.rest.Note)
	}
	if !kept {
		b.Group.Note(b.Config.Notes)
	}
}

// checkIdle is for when nothing else has happened. A server that is being stopped is not frozen again.
func (b *Brain) checkIdle() {
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
			b.Group.AddNote(b.rest.Note)
		}
	}
}
