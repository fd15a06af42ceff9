// SPDX-License-Identifier: Apache-2.0

package launcher

import (
	"errors"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/kernel/linux"
	"github.com/mcpscope/mcpscope/internal/kernel/loop"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/backend"
	"github.com/mcpscope/mcpscope/internal/server/client"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/helper"
	"github.com/mcpscope/mcpscope/internal/server/names"
	"github.com/mcpscope/mcpscope/internal/server/page"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/text"
)

// TakenServer is a server that its client has executed without a launcher: this process has moved it to a
// group of its own, and is its helper, as it is of others. Its own guard is there for the start alone: it
// removes the group if this process is killed then, and a manager makes the scope of it. Afterwards the
// client's guard has what the next process needs.
type TakenServer struct {
	Config *protocol.Config
	Number int // under which the client's guard keeps it

	server    *helper.Server
	watched   *helper.Watched
	client    *client.Side
	wanted    *Server // nil for a server of the watcher before
	Unlimited []error // limits that could not be applied
	// startGuard is our own guard of a server that has begun. It is nil before that, when server.Guard is our
	// guard, and after the guard has exited. A server of the watcher before never gets such a guard.
	startGuard *page.Guard
	hasRequest bool // see PassOnRequest
}

func newTaken(w *helper.Watched) *TakenServer {
	return &TakenServer{Config: w.Server.Config, server: w.Server, watched: w}
}

// noGuard is the guard of a server for its helper, where that is not to write to one.
func noGuard(p *page.Page) *page.Guard { return &page.Guard{Page: p, Sock: -1, PIDFD: -1} }

// Prepare makes a group for a process. Take or Release has to follow. The pidfd of the process is closed with
// the server.
func (s *Server) Prepare(r client.Child) (*TakenServer, error) {
	m := newMaking(s)
	m.server.Config.StartedByClient = true
	t := newTaken(helper.NewWatched(m.server, s.Gateway.Hub.Loop()))
	t.wanted = s
	err := m.prepareChild(r)
	t.client = m.client
	t.Unlimited = m.unlimited
	if err != nil {
		t.Release()
		return nil, err
	}
	return t, nil
}

// prepareChild makes page and group for a process.
func (m *making) prepareChild(r client.Child) (err error) {
	c := m.server.Config
	r.Idle = c.Facts.Policy.IdleFreeze > 0
	m.client, err = client.WatchChild(r)
	if err != nil {
		return err
	}
	m.client.Server.Members = membersOf(m.server)
	c.Main, err = group.Identify(r.PID)
	if err != nil {
		return err
	}
	if err := m.openPage(); err != nil {
		return err
	}
	if err := m.acquire(); err != nil {
		return err
	}
	c.Side = m.client.ClientSide
	p := m.server.Page
	p.Started.Side.Conveyed = c.Side.Conveyed
	p.Started.Client = page.Process{PID: int64(c.Facts.Client.PID), Start: c.Facts.Client.Start}
	p.ByWatcher.Unproven = m.wanted.Gateway.Unproven
	return p.SetConfig(protocol.Encode(c))
}

// membersOf returns a list of the processes of the group, the main process first.
func membersOf(s *helper.Server) func() []int {
	return func() []int {
		pids, _ := s.Group.Membership().PIDs() // none, if it was removed
		main := slices.Index(pids, s.Config.Main.PID)
		if main > 0 {
			pids[0], pids[main] = pids[main], pids[0]
		}
		return pids
	}
}

// Take puts the process into the group, when the client's guard keeps that. Guide or Release has to follow.
func (t *TakenServer) Take(pid int) error {
	if err := t.TakeAlso(pid, t.client.Server.Main); err != nil {
		return err
	}
	return t.server.Page.SetDirectories() // none, for our guard
}

// Kept returns the descriptors of the server that the client's guard keeps.
func (t *TakenServer) Kept() page.Kept {
	return page.Kept{
		Payload: int32(t.server.Group.Payload.FD()), Memory: t.server.Page.Memory,
		Stdin: int32(t.client.Stdin), Stdout: int32(t.client.Stdout),
	}
}

// showLife locks a file of the group for sweepers, which find the process that has done so. The lock of the
// directory is the guard's, too.
func showLife(events int) {
	_ = unix.Flock(events, unix.LOCK_SH|unix.LOCK_NB) // a member may have locked it
}

// GuardedBy records the client's guard.
func (t *TakenServer) GuardedBy(pid int) {
	t.Config.Facts.Guard, _ = group.Identify(pid) // as far as it can be seen
	if t.IsProven() {
		_ = t.server.Group.Attributes().Register(t.Config) // it was removed
	}
}

// TakeAlso puts another process into the same group, which the first one has started. It may be there
// already.
func (t *TakenServer) TakeAlso(pid, pidfd int) error {
	g := t.server.Group
	err := g.Limits().PreferInSession(pid, pidfd, t.Config.Facts.Client.PID) // before it forks
	if err != nil && !linux.Ended(pidfd) && !linux.Ended(t.client.PIDFD) {
		t.server.Note("out of memory the kernel may kill its client first: " + text.JoinLines(err))
	}
	before := placeOf(pid)
	defer before.Close()
	err = g.Membership().Take(pid, pidfd)
	isRefused := errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM)
	if isRefused && g.Managed {
		err = backend.Attach(g, pid) // of a session, whose processes only its manager may move here
	}
	if linux.Ended(pidfd) { // its pid may be another process's by now
		g.Membership().Expel(pid, before)
		return unix.ESRCH
	}
	if err != nil {
		return err
	}
	if t.IsProven() { // for a member that leaves the group before Guide
		_ = group.TagOf(g.ID).Put(pid, pidfd) // without a tag it is found in the group alone
	}
	return nil
}

// placeOf opens the cgroup of a process. It is nil if that has ended, or is in a part that cannot be seen.
func placeOf(pid int) *cgroup.Group {
	root, path, err := group.Position(pid)
	if err != nil {
		return nil
	}
	defer root.Close()
	dir, err := root.Child("." + path)
	if err != nil {
		return nil
	}
	return dir
}

// Prove turns a program with OfGateway.Unproven into a server: from then on it has these limits, and a sweep
// stops it if it is an orphan. Guide has to follow.
func (t *TakenServer) Prove(limits cgroup.Limits, why string) error {
	t.server.Note(why)
	unlimited, err := limit(t.server, limits, true)
	t.Unlimited = append(t.Unlimited, unlimited...)
	if err != nil {
		return err
	}
	t.server.Page.ByWatcher.Unproven = false
	return t.server.Group.Attributes().Register(t.Config)
}

// IsProven is false for a program with OfGateway.Unproven, before Prove.
func (t *TakenServer) IsProven() bool { return !t.server.Page.ByWatcher.Unproven }

// Main is a pidfd of the main process and its pid; the pidfd is -1 if that has ended.
func (t *TakenServer) Main() (pid, pidfd int) { return t.Config.Main.PID, t.client.Server.Main }

// ListMembers lists the processes of the group of a server.
func ListMembers(t *TakenServer) []int {
	pids, _ := t.server.Group.Membership().PIDs() // none, if it was removed
	return pids
}

// HeldIn reports whether a process with these ends can write to the server's stdin.
func (t *TakenServer) HeldIn(ends client.Ends) bool { return t.client.HeldIn(ends) }

// Guide begins to watch the server. Live has to follow.
func (t *TakenServer) Guide() error {
	g := t.server.Group
	if err := g.Membership().Tag(); err != nil {
		t.server.Note("a member that moves to another cgroup is not found: " + text.JoinLines(err))
	}
	g.Attributes().Note(t.Config.Output.Notes)
	if err := t.client.Add(t.watched.Loop); err != nil {
		return err
	}
	if err := t.watched.Begin(); err != nil {
		return err
	}
	showLife(t.watched.Events)
	if t.server.Guard.Sock >= 0 {
		t.startGuard = t.server.Guard
	}
	t.watched.Settle(t.client, func() {
		if group.Populated(g.Members()) { // a manager removes a scope without a process
			t.endStartGuard()
			t.watched.Loop.Report(loop.TokenAdopted)
		}
	})
	t.server.Guard = noGuard(t.server.Page)
	return nil
}

// Live stops the server when it has to end, and returns afterwards. Close has to follow.
func (t *TakenServer) Live() { t.watched.Live() }

// PassOnRequest has the server stopped if that was requested on its page.
func (t *TakenServer) PassOnRequest() {
	if t.server.Page.ByOthers.Stop && !t.hasRequest {
		t.hasRequest = true
		t.watched.Loop.Report(loop.TokenEvents)
	}
}

// MeasureSoon has the figures of a server read, in time for those that a manager removes.
func MeasureSoon(t *TakenServer) { t.watched.Loop.ReportMemory() }

// endStartGuard ends our own guard, and closes the descriptors that were for it alone.
func (t *TakenServer) endStartGuard() {
	if t.startGuard == nil {
		return
	}
	dismissGuard(t.startGuard)
	t.startGuard = nil
	fds := &t.server.Page.FD
	_ = unix.Close(int(fds.Program))  // a file that is not open for writing
	_ = unix.Close(int(fds.Launcher)) // a pidfd
	fds.Program = -1
	fds.Launcher = -1
}

// reapGuard waits for a guard that has ended and is our own child, where init does not reap: it would be a
// zombie as long as this watcher lives. A guard sends no signal at its end, so wait4(2) needs __WALL.
func reapGuard(of *page.Page) {
	_, _ = unix.Wait4(int(of.ByGuard.GuardPID), nil, unix.WNOHANG|unix.WALL, nil) // ECHILD: it is an orphan
}

// ID is the id of the server's group.
func (t *TakenServer) ID() string { return t.Config.Group.ID }

// Name is the name of the server.
func (t *TakenServer) Name() string { return t.Config.Facts.Name }

// Backend is where the group of the server comes from.
func (t *TakenServer) Backend() names.Backend { return t.Config.Group.Backend }

// Release leaves the process alone, in a group that no sweep ends.
func (t *TakenServer) Release() {
	s := t.server
	if s.Page != nil {
		s.Page.ByWatcher.Released = true
	}
	if s.Group != nil {
		t.Disarm()
		if s.Guard != nil {
			dismissGuard(s.Guard)
			s.Guard = nil
		}
		_ = s.Group.Remove() // a sweep removes a group with members that can't be moved
	}
	t.Close()
}

// MoveToClient moves what is in the group to where its client is, so that the end of the client's unit
// reaches it as it would have. What can't be moved stays: a user may not move a process into a login
// session.
func (t *TakenServer) MoveToClient(client int) {
	if t.server.Group.IsTree() { // its members are where they were
		return
	}
	theirs := placeOf(client)
	if theirs == nil {
		return
	}
	defer theirs.Close()
	for range moveTries {
		pids, _ := t.server.Group.Payload.Members() // a partial list is better than none
		if len(pids) == 0 {
			return
		}
		for _, pid := range pids {
			if err := theirs.Take(pid); err != nil && !proc.IsGone(err) {
				return
			}
		}
	}
}

// moveTries is how often MoveToClient looks for members that were born while others were moved.
const moveTries = 20

// Disarm has no sweep end the group.
func (t *TakenServer) Disarm() {
	_ = t.server.Group.Attributes().Disarm() // it was removed
	group.Untag(t.server.Group.Members(), group.TagOf(t.server.Group.ID))
}

// Close closes what this process has of a server that has ended, or was released.
func (t *TakenServer) Close() {
	t.watched.AwaitSettled()
	t.watched.Loop.Close()
	if g := t.server.Group; g != nil {
		g.Close()
	}
	dismissGuard(t.server.Guard)
	dismissGuard(t.startGuard)
	closeWatched(t)
	if t.client != nil {
		t.client.Close()
	}
	if t.server.Page != nil {
		t.server.Page.Close()
	}
}

// closeWatched closes the descriptors that this process has opened itself, to watch the members. t may be
// nil.
func closeWatched(t *TakenServer) {
	if t == nil {
		return
	}
	_ = unix.Close(t.watched.Events) // a file that is only read, or -1
	if t.client != nil {
		_ = unix.Close(t.client.Server.Main)       // a pidfd, or -1
		_ = unix.Close(int(t.client.Server.Input)) // an epoll set, or -1
		t.client.Server.Input = -1
	}
}

// SetStderr records where the server's stderr goes, with a note or "". Call it before Guide; without a call
// it is the client's.
func (t *TakenServer) SetStderr(where protocol.Stderr, note string) {
	t.Config.Output.Stderr = where
	t.server.Note(note)
}
