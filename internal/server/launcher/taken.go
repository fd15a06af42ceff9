// SPDX-License-Identifier: Apache-2.0

package launcher

import (
	"errors"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/kernel/linux"
	"github.com/mcpscope/mcpscope/internal/kernel/loop"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/backend"
	"github.com/mcpscope/mcpscope/internal/server/brain"
	"github.com/mcpscope/mcpscope/internal/server/client"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/page"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// Taken is a server that its client has started, in a group of its own. This process is its brain, as it is
// of others. Its own guard is there for the start alone: it removes the group if this process is killed then,
// and a manager makes the scope of it. Afterwards the client's guard has what the next process needs.
type Taken struct {
	*brain.Brain
	wanted    *Server     // nil for a server of the watcher before
	unlimited []error     // limits that could not be applied
	Number    int         // under which the client's guard keeps it
	own       *page.Guard // our own guard, when the server has begun; nil as soon as it has ended
}

// Prepare makes a group for a process. Take or Release has to follow. The pidfd of the process is closed with
// the server.
func (s *Server) Prepare(r client.Child) (*Taken, error) {
	b := s.birth()
	b.Config.Taken = true
	t := &Taken{Brain: brain.New(b.Config, s.Hub.Loop()), wanted: s}
	err := t.prepare(b, r)
	t.Server = b.Server
	t.Client = b.client
	t.unlimited = b.unlimited
	if err != nil {
		t.Release()
		return nil, err
	}
	return t, nil
}

func (t *Taken) prepare(b *birth, r client.Child) (err error) {
	r.Idle = b.Config.Policy.IdleFreeze > 0
	if b.client, t.Held, err = client.WatchChild(r); err != nil {
		return err
	}
	b.client.Members = t.members
	if b.Config.Main, err = group.Identify(r.PID); err != nil {
		return err
	}
	if err := b.open(t.wanted.Executable); err != nil {
		return err
	}
	if err := b.acquire(); err != nil {
		return err
	}
	b.Config.Side = b.client.ClientSide
	b.Page.Order.Unproven = t.wanted.Unproven
	return b.Page.SetConfig(protocol.Encode(b.Config))
}

// Take puts the process into the group, when the client's guard keeps that. Guide or Release has to follow.
func (t *Taken) Take(pid int) error {
	if err := t.TakeAlso(pid, t.Client.Main); err != nil {
		return err
	}
	return t.Page.SetDirectories() // none, for our guard
}

// Kept is for the client's guard.
func (t *Taken) Kept() page.Kept {
	return page.Kept{
		Payload: int32(t.Group.Payload.FD()), Memory: t.Page.Memory,
		Stdin: int32(t.Client.Stdin), Stdout: int32(t.Client.Stdout),
	}
}

// members are the processes of the group, the main process first.
func (t *Taken) members() []int {
	pids, _ := t.Group.Payload.Members() // none, if it was removed
	main := slices.Index(pids, t.Config.Main.PID)
	if main > 0 {
		pids[0], pids[main] = pids[main], pids[0]
	}
	return pids
}

// Heir is the process that goes on with the servers of a watcher that is dead.
type Heir struct {
	Hub   *loop.Hub
	Env   []string
	Guard int // pid of the client's
	// ClientPIDFD finds the client of a server again.
	ClientPIDFD func(protocol.ClientFacts) int
}

// Retake continues with a server of the watcher before, which may have ended meanwhile. It returns nil for
// one that was released, or not taken yet.
func (h *Heir) Retake(k page.Kept) (*Taken, error) {
	for _, fd := range [...]int32{k.Payload, k.Memory, k.Stdin, k.Stdout} {
		unix.CloseOnExec(int(fd)) // fails for none
	}
	p, err := page.Open(int(k.Memory))
	if err != nil || p.ByLauncher.FailedStep != page.StepNone {
		return nil, err
	}
	// The numbers of this process.
	p.ByGuard.Payload = k.Payload
	p.Memory = k.Memory
	p.FD.Program = -1
	p.FD.Launcher = -1
	p.ByGuard.Generation++ // the other process may still run
	load := brain.LoadRunning
	if p.Order.Unproven {
		load = brain.Load
	}
	b, err := load(p, &page.Guard{Page: p, Sock: -1, PIDFD: -1}, h.Env, h.Hub.Loop())
	if err != nil {
		return nil, err
	}
	t := &Taken{Brain: b}
	t.Client = &client.Side{
		ClientSide: t.Config.Side, PIDFD: h.ClientPIDFD(t.Config.Client), Main: -1,
		Stdin: client.Watch(k.Stdin), Stdout: client.Watch(k.Stdout),
		Input: -1, Room: [2]client.Watch{-1, -1}, Members: t.members,
	}
	if p.Directories[0] != 0 && !group.Populated(t.Group.Members()) {
		t.Guard = nil
		t.Release()
		return nil, nil
	}
	if t.Client.Main, err = openProcess(t.Config.Main); err != nil {
		return nil, err
	}
	t.Held = t.Client.Rewatch(t.Config.Policy.IdleFreeze > 0)
	if p.Order.Unproven {
		return t, nil
	}
	t.Config.Launcher, _ = group.Identify(os.Getpid())
	t.showLife()
	t.GuardedBy(h.Guard)
	return t, t.TakeOverInWatcher(t.Client)
}

// openProcess returns a pidfd, or -1 if the process has ended.
func openProcess(i protocol.Identity) (pidfd int, err error) {
	pidfd, err = unix.PidfdOpen(i.PID, 0)
	if err != nil {
		return -1, proc.IgnoreGone(err)
	}
	if now, err := group.Identify(i.PID); err != nil || now.Start != i.Start { // its pid is another's
		_ = unix.Close(pidfd)
		return -1, nil
	}
	return pidfd, nil
}

// Reguard is GuardedBy for a server that no watcher could go on with.
func Reguard(k page.Kept, pid int) {
	fd, err := unix.FcntlInt(uintptr(k.Payload), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return
	}
	g, err := group.Reopen(fd, protocol.Placed{})
	if err != nil {
		return // it was removed
	}
	defer g.Close()
	_, armed, err := g.Payload.Attr(group.AttrArmed)
	if err != nil || !armed {
		return // it is not proven a server
	}
	facts := g.Facts()
	facts.Guard, _ = group.Identify(pid)
	_ = g.Register(&protocol.Config{Facts: facts}) // as above
}

// showLife locks a file for sweepers, which find the process that has done so. The lock of the directory is
// the guard's, too.
func (t *Taken) showLife() {
	_ = unix.Flock(t.Events, unix.LOCK_SH|unix.LOCK_NB) // a member may have locked it
}

// GuardedBy records the client's guard.
func (t *Taken) GuardedBy(pid int) {
	t.Config.Guard, _ = group.Identify(pid)
	if !t.Page.Order.Unproven {
		_ = t.Group.Register(t.Config) // it was removed
	}
}

// TakeAlso puts another process into the same group, which the first one has started. It may be there
// already.
func (t *Taken) TakeAlso(pid, pidfd int) error {
	err := t.Group.Payload.Take(pid)
	if (errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM)) && t.Group.Managed {
		err = backend.Attach(t.Group, pid) // of a session, whose processes only its manager may move here
	}
	if err == nil && linux.Ended(pidfd) {
		err = unix.ESRCH // a group is entered by pid, which may be another process's by now
	}
	if err == nil && !t.Page.Order.Unproven { // for a member that leaves the group before Guide
		_ = group.TagOf(t.ID()).Put(pid, pidfd)
	}
	return err
}

// Prove turns a program with Server.Unproven into a server: from then on it has these limits, and a sweep
// stops it if it is an orphan. Guide has to follow.
func (t *Taken) Prove(limits cgroup.Limits, why string) error {
	t.Note(why)
	b := &birth{Server: t.Server, wanted: t.wanted}
	err := b.limit(limits)
	t.unlimited = append(t.unlimited, b.unlimited...)
	if err != nil {
		return err
	}
	t.Page.Order.Unproven = false
	return t.Group.Register(t.Config)
}

// IsProven is false for a program with Server.Unproven, before Prove.
func (t *Taken) IsProven() bool { return !t.Page.Order.Unproven }

// Main is a pidfd of the main process and its pid; the pidfd is -1 if that has ended.
func (t *Taken) Main() (pid, pidfd int) { return t.Config.Main.PID, t.Client.Main }

// Unlimited has the limits that could not be applied to the server.
func (t *Taken) Unlimited() []error { return t.unlimited }

// HeldIn reports whether a process with these ends can write to the server's stdin.
func (t *Taken) HeldIn(ends client.Ends) bool { return t.Client.HeldIn(ends) }

// Guide begins to watch the server. Live has to follow.
func (t *Taken) Guide() error {
	if err := t.Group.TagMembers(); err != nil {
		t.Note("a member that moves to another cgroup is not found: " + protocol.OneLine(err))
	}
	t.Group.Note(t.Config.Notes)
	if err := errors.Join(t.Client.Add(t.Loop), t.Begin()); err != nil {
		return err
	}
	t.showLife()
	t.own = t.Guard
	t.SettleInWatcher(func() {
		if group.Populated(t.Group.Members()) { // a manager removes a scope without a process
			t.endOwn()
			t.Loop.Report(loop.TokenAdopted)
		}
	})
	t.Guard = &page.Guard{Page: t.Page, Sock: -1, PIDFD: -1}
	return nil
}

// endOwn ends our own guard, and closes the descriptors that were for it alone.
func (t *Taken) endOwn() {
	if t.own.Sock < 0 { // it was that of the watcher before
		return
	}
	_ = unix.Shutdown(t.own.Sock, unix.SHUT_RDWR) // it exits
	if !linux.AwaitEnd(t.own.PIDFD, unix.POLLIN, protocol.ReactWithin) {
		return // it is stopped
	}
	closeGuard(t.own)
	t.own = nil
	_ = unix.Close(int(t.Page.FD.Program))
	_ = unix.Close(int(t.Page.FD.Launcher))
	t.Page.FD.Program = -1
	t.Page.FD.Launcher = -1
}

func closeGuard(g *page.Guard) {
	if g != nil { // it ends with its socket
		_ = unix.Close(g.Sock)
		_ = unix.Close(g.PIDFD)
	}
}

func (t *Taken) ID() string                { return t.Config.Group.ID }
func (t *Taken) Name() string              { return t.Config.Name }
func (t *Taken) Backend() protocol.Backend { return t.Config.Group.Backend }

// Release leaves the process alone, in a group that no sweep ends.
func (t *Taken) Release() {
	if t.Page != nil {
		t.Page.ByLauncher.FailedStep = page.StepJoin
	}
	if g := t.Group; g != nil {
		t.Leave()
		t.dismissGuard()
		_ = removeSoon(g) // a sweep removes a group with members that can't be moved
	}
	t.Close()
}

// dismissGuard ends our own guard, before or after the server has begun.
func (t *Taken) dismissGuard() {
	b := &birth{Server: t.Server}
	b.dismiss()
	t.Guard = b.Guard
}

// removeSoon tries again while the kernel counts a process as a member that has ended, or was moved.
func removeSoon(g *group.ControlGroup) error {
	const longest = 100 * time.Millisecond
	for pause := time.Millisecond; ; pause *= 2 {
		err := g.Remove()
		if !errors.Is(err, unix.EBUSY) || pause > longest {
			return err
		}
		time.Sleep(pause)
	}
}

// GiveBack moves what is in the group to where its client is, so that the end of the client's unit reaches it
// as it would have. What can't be moved stays: a user may not move a process into a login session.
func (t *Taken) GiveBack(client int) {
	root, path, err := group.Position(client)
	if err != nil {
		return
	}
	defer root.Close()
	theirs, err := root.Child(strings.TrimPrefix(path, "/"))
	if err != nil {
		return
	}
	defer theirs.Close()
	for range giveBackTries {
		pids, _ := t.Group.Payload.Members() // a partial list is better than none
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

// giveBackTries is how often GiveBack looks for members that were born while others were moved.
const giveBackTries = 20

// Leave has no sweep end the group.
func (t *Taken) Leave() {
	_ = t.Group.Disarm() // it was removed
	t.untag()
}

// untag gives up the race with members that fork at some time.
func (t *Taken) untag() {
	tag := group.TagOf(t.ID())
	for tagged, try := true, 0; tagged && try < 100; try++ {
		tagged = false // a child may have been forked before its parent's tag was removed
		pids, _ := t.Group.Payload.Members()
		for _, pid := range pids {
			tagged = tagged || tag.On(pid)
			tag.Remove(pid)
		}
	}
}

func (t *Taken) Close() {
	t.AwaitSettled()
	t.Loop.Close()
	if g := t.Group; g != nil {
		g.Close()
	}
	t.CloseHeld()
	_ = unix.Close(t.Events) // fails for none
	if t.Client != nil {
		_ = unix.Close(t.Client.Main) // fails for none
	}
	closeGuard(t.Guard)
	closeGuard(t.own)
	if t.Client != nil {
		t.Client.Close()
	}
	if t.Page != nil {
		t.Page.Close()
	}
}

// SetStderr records where the server's stderr goes, with a note or "". Call it before Guide; without a call
// it is the client's.
func (t *Taken) SetStderr(where protocol.Stderr, note string) {
	t.Config.Stderr = where
	t.Note(note)
}
