// SPDX-License-Identifier: Apache-2.0

package helper

import (
	"cmp"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/kernel/loop"
	"github.com/mcpscope/mcpscope/internal/server/backend"
	"github.com/mcpscope/mcpscope/internal/server/fleet"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/names"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/server/sweep"
)

// settling has the tasks that a start leaves for later, so that they keep neither the server nor a signal
// waiting.
type settling struct {
	server    *Server
	tasks     sync.WaitGroup // all of them, which run beside the loop
	sweeping  sync.WaitGroup // the one that stops orphans
	isRunning bool           // the loop has not reported yet that the tasks have ended: see reportTo
	doneFD    int            // while isRunning, an eventfd that is readable when they have
}

// begin begins the tasks, when the server runs.
func (t *settling) begin() {
	s := t.server
	if !s.Page.Plan.IsByMain { // raw code has no encoder
		_ = s.Group.Attributes().Register(s.Config) // it was removed
	}
	if !s.Page.ByHelper.Start.Begun { // otherwise a helper that was killed has begun
		s.logStart()
		s.Page.ByHelper.Start.Begun = true
	}
	guard := freeze.Root{PID: int(s.Page.ByGuard.GuardPID), PIDFD: s.Guard.PIDFD}
	s.Group.AdoptBy = backend.Adoption(s.Config, guard)
	s.Group.Manager().Adopt()
	t.tasks.Go(s.Group.Manager().AwaitAnswer)
	if s.Config.Replace {
		t.tasks.Go(s.replaceOlder)
	}
	t.beginSweep()
}

// beginSweep stops the orphans beside the group. To look for them takes the longer the more servers there
// are.
func (t *settling) beginSweep() {
	parent, own := t.server.Group.Beside()
	decided := &t.server.Page.ByHelper
	decided.Start.Sweeping = true
	t.sweeping.Go(func() {
		sweep.BeginSweepOfMany(parent, own).Await()
		decided.Start.Sweeping = false
	})
	t.tasks.Go(t.sweeping.Wait)
}

// reportTo has a loop report TokenSettled when all tasks have ended.
func (t *settling) reportTo(l *loop.Loop) error {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return os.NewSyscallError("eventfd", err)
	}
	t.isRunning = true
	t.doneFD = fd
	go func() {
		t.tasks.Wait()
		_, _ = unix.Write(fd, []byte{1, 0, 0, 0, 0, 0, 0, 0}) // the counter is zero, so there is room
	}()
	return l.Add(fd, loop.TokenSettled)
}

// finish records that all tasks have ended, at TokenSettled.
func (t *settling) finish() {
	_ = unix.Close(t.doneFD) // an eventfd
	t.isRunning = false
	t.server.Page.ByHelper.Start.Done = true
}

// replaceOlder stops older servers of the same client process that are the same server: a client that
// reconnects without closing would collect them. Each is visible before it looks. So of two that start at the
// same time at least one sees the other, and the older stops.
func (s *Server) replaceOlder() {
	newer := s.Config
	if !hasKnownClient(&newer.Facts, group.InitReaps()) {
		const note = "replaces no older server: its client can't be told from others, as with docker exec"
		s.Group.Attributes().AddNote(note)
		return
	}
	listed, _ := fleet.ListOwn() // an invisible server stays
	for _, l := range listed {
		defer l.Close()
		runs := l.State != fleet.Terminating && l.State != fleet.Orphaned && l.Kept == nil
		isSameServer := haveOneClient(&newer.Facts, &l.Facts) && l.Facts.Role() == newer.Facts.Role()
		isRival := isSameServer && l.Placed.ID != newer.Group.ID
		if !runs || !isRival {
			continue
		}
		switch compareStarts(&newer.Facts, &l.Facts) {
		case 1:
			l.LogStop("a newer one, " + newer.Group.ID + " (--replace)")
			if err := l.RequestStop(); err != nil { // the note is not written beside the loop
				s.Group.Attributes().AddNote("the older server " + l.Placed.ID + " stays: " + err.Error())
			}
		case -1:
			s.stopAsOlder()
		}
	}
}

// hasKnownClient reports whether the client of a server has a process id of its own. One outside of the pid
// namespace is process 0, and an init that reaps is the parent of servers whose clients have ended.
func hasKnownClient(f *protocol.Facts, initReaps bool) bool {
	return f.Client.PID > 1 || f.Client.PID == 1 && !initReaps
}

// haveOneClient reports whether two servers have the same client, if it is known.
func haveOneClient(a, b *protocol.Facts) bool {
	isSameProcess := a.Client.PID == b.Client.PID && a.Client.Start == b.Client.Start
	return isSameProcess && a.Launcher.Namespace == b.Launcher.Namespace
}

// compareStarts returns 1 if a has started later than b, and -1 if it has started earlier. A clock that was
// set back counts only for servers of a gateway, and for launchers that have started in the same 10 ms.
func compareStarts(a, b *protocol.Facts) int {
	haveLaunchers := a.Guard.PID == 0 && b.Guard.PID == 0
	if haveLaunchers && a.Launcher.Start != b.Launcher.Start {
		return cmp.Compare(a.Launcher.Start, b.Launcher.Start)
	}
	return cmp.Compare(a.Started, b.Started)
}

// stopAsOlder requests the stop of this server, since a newer one replaces it.
func (s *Server) stopAsOlder() {
	switch {
	case s.Config.StartedByClient && s.Group.IsTree():
		s.Page.ByOthers.Stop = true
		_ = unix.Kill(os.Getpid(), names.StopSignal) // of this watcher, which reads that then
		return
	case s.Config.StartedByClient:
		_ = s.Group.Attributes().AskToStop() // without it this server stays, as the newer one does
		return
	}
	s.Page.ByOthers.Stop = true                                       // for the next guard
	_ = unix.PidfdSendSignal(s.Guard.PIDFD, names.StopSignal, nil, 0) // it has ended
}
