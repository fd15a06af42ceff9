// SPDX-License-Identifier: Apache-2.0

package helper

import (
	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/kernel/loop"
	"github.com/mcpscope/mcpscope/internal/server/causes"
	"github.com/mcpscope/mcpscope/internal/server/client"
	"github.com/mcpscope/mcpscope/internal/server/decide"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/page"
)

// watchedStop has what a watcher needs to see, and to do, to end a server.
type watchedStop struct {
	server     *Server
	loop       *loop.Loop
	client     *client.Side
	ending     ending
	generation uint32 // the page's, when this watcher began
	askAt      int64  // when the holder of stdin is looked for again, or 0
	holder     int    // pidfd of that, if it is the client now; or -1
}

// isLeft reports whether another watcher has the server.
func (w *watchedStop) isLeft() bool { return w.server.Page.ByGuard.Generation != w.generation }

// step decides, and performs what was decided. It returns true when nothing of the server is left, or
// nothing that could be ended.
func (w *watchedStop) step() (isOver bool) {
	s := w.server
	times := page.TimesOf(s.Page)
	state := &s.Page.ByGuard.Stop.State
	for !w.isLeft() {
		facts := w.facts()
		switch decide.Step(state, &facts, &times) {
		case decide.Thaw:
			_ = freeze.ThawStopped(s.Group.Members()) // it was removed
		case decide.Prepare:
			w.recordCause()
			if page.MayKeep(s.Page) {
				(&keeping{server: s}).lookAtStop()
				s.Page.ByHelper.Daemons.MembersKept = true
			}
			if s.isDescribed() && !s.Page.ByHelper.Daemons.UseFound {
				s.findUse()
			}
		case decide.Ask:
			w.recordCause()
			w.ask()
		case decide.Kill:
			w.recordCause()
			w.kill()
			return len(w.ending.stuck) > 0 // events come before the next kill
		default:
			return state.Phase == decide.Gone
		}
	}
	return false
}

func (w *watchedStop) facts() decide.Facts {
	p := w.server.Page
	w.findHolder()
	f := page.FactsOf(p, clock())
	f.Abandoned = page.IsAbandoned(p)
	f.Keeps = page.MayKeep(p)
	f.SeeksUse = w.server.isDescribed() && !p.ByHelper.Daemons.UseFound
	f.MainEnded = p.ByLauncher.ExitedAt != 0
	switch {
	case f.MainEnded:
		f.Empty = w.isEmpty()
	case p.ByGuard.Stop.State.Phase == decide.Grace:
		f.Unread = w.client.Unread() || !f.Abandoned && w.client.Blocked()
	}
	return f
}

// findHolder looks for the process that can write to stdin after the death of the client. Another process
// that can is the client from then on.
func (w *watchedStop) findHolder() {
	s := w.server
	if !page.SeeksHolder(s.Page) {
		w.askAt = 0
		return
	}
	if clock() < w.askAt {
		return
	}
	pid, found := w.client.FindHolder(s.Group.Members(), freeze.TagOn(s.Config.Facts.Launcher.PID), nil)
	switch {
	case found == page.NoHolder:
		s.Page.ByHelper.Holder = found
	case found == page.LivingHolder && w.watchHolder(pid):
		s.Page.ByGuard.Happened[page.ClientDied] = 0
		w.askAt = 0
	default:
		w.askAt = clock() + page.HolderEach
	}
}

// watchHolder has the death of the new client reported.
func (w *watchedStop) watchHolder(pid int) bool {
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return false
	}
	if err := w.loop.Add(pidfd, loop.TokenClient); err != nil {
		_ = unix.Close(pidfd) // it was only opened
		return false
	}
	w.closeHolder()
	w.holder = pidfd
	w.client.PIDFD = pidfd // that of the client before is the watcher's
	return true
}

// closeHolder closes the pidfd of a new client.
func (w *watchedStop) closeHolder() {
	w.loop.Forget(w.holder)
	_ = unix.Close(w.holder) // a pidfd, or -1
	w.holder = -1
}

// isEmpty reports whether no member is left, in the group or elsewhere. To search for the tag reads all
// processes of the host, 1 ms for 100 of them.
func (w *watchedStop) isEmpty() bool {
	g := w.server.Group
	return !group.Populated(g.Members()) && !group.Populated(g.Membership().Tagged())
}

func (w *watchedStop) recordCause() {
	s := w.server
	if page.SetCause(s.Page) {
		s.Group.Attributes().SetCause(causes.Of(uint32(s.Page.ByGuard.Stop.Cause)))
	}
}

// ask sends the signal of the stop to each member, and records whom it finds.
func (w *watchedStop) ask() {
	s := w.server
	stopped := &s.Page.Found.Stopped
	stopped.Total = 0
	pids, _ := s.Group.Membership().PIDs() // a partial list is better than none
	list(stopped, pids, s.Config.Main.PID)
	w.ending.record.measureEarly()
	freeze.Ask(s.Group.Members(), unix.SIGTERM)
	freeze.Ask(s.Group.Membership().Tagged(), unix.SIGTERM, pids...) // those that have moved elsewhere
	s.Page.ByGuard.Stop.Asked = true
}

// kill freezes and kills all members. It waits until they are dead.
func (w *watchedStop) kill() {
	s := w.server
	killed := &s.Page.Found.Killed
	for _, members := range []freeze.Target{s.Group.Members(), s.Group.Membership().Tagged()} {
		frozen := func() {
			w.ending.record.measureEarly()
			pids, _ := members.Members() // a partial list is better than none
			list(killed, pids, 0)
		}
		left, err := freeze.Stop{Target: members, Frozen: frozen}.Run()
		w.ending.stuck = freeze.AddStuck(w.ending.stuck, left)
		if err != nil {
			s.Note("members may be left: " + err.Error())
		}
	}
}
