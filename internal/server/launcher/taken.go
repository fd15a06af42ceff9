// SPDX-License-Identifier: Apache-2.0

package launcher

import (
	"errors"
	"os"
	"strings"

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
type Taken struct{ *birth }

// Prepare makes a group for a process. Take or Release has to follow. The pidfd of the process is closed with
// the server.
func (s *Server) Prepare(r client.Child) (*Taken, error) {
	b, err := s.birth()
	if err != nil {
		_ = unix.Close(r.PIDFD) // a pidfd
		return nil, err
	}
	b.Config.Taken = true
	t := &Taken{b}
	if err := t.prepare(r); err != nil {
		t.Release()
		return nil, err
	}
	return t, nil
}

func (t *Taken) prepare(r client.Child) (err error) {
	if t.Client, t.Held, err = client.WatchChild(r); err != nil {
		return err
	}
	if err := t.Open(t.server.Executable); err != nil {
		return err
	}
	if err := t.acquire(); err != nil {
		return err
	}
	t.Config.Side, t.Page.Childless, t.Page.Reign = t.Client.ClientSide, true, 1
	t.Page.Unproven = t.server.Unproven
	return t.Page.SetConfig(protocol.Encode(t.Config))
}

// Take puts the process into the group, when the client's guard keeps that. Guide or Release has to follow.
func (t *Taken) Take(pid int) error {
	if err := t.TakeAlso(pid, t.Client.Main); err != nil {
		return err
	}
	return t.Page.SetDirectories() // none, for our guard
}

// Kept is for the client's guard. The page is in the place of a descriptor that does not exist.
func (t *Taken) Kept() page.Kept {
	in := t.Client
	all := [...]int{
		t.Group.Payload.FD(), int(t.Page.Memory), in.Main,
		int(in.Stdin), int(in.Input), int(in.Stdout), int(in.Room[0]),
	}
	k := page.Kept{7: -1}
	for i, fd := range all {
		if k[i] = int32(fd); fd < 0 {
			k[i] = t.Page.Memory
		}
	}
	return k
}

// Retake continues with a server of the watcher before, which may have ended meanwhile. It returns
// nil for one that was released, or not taken yet.
func Retake(k page.Kept, clientPIDFD int, env []string, guard int) (*Taken, error) {
	own, _ := client.Identify(int(k[1]), "")
	for i, fd := range k {
		unix.CloseOnExec(int(fd))
		if f, _ := client.Identify(int(fd), ""); i > 1 && f == own {
			k[i] = -1
		}
	}
	_ = unix.Close(int(k[7])) // it shows the life of the guard alone
	p, err := page.Open(int(k[1]))
	if err != nil || p.FailedStep != page.StepNone {
		return nil, err
	}
	p.Payload, p.Memory, p.Program, p.Launcher = k[0], k[1], -1, -1 // of this process
	p.Reign++                                                       // the other process may still run
	l, err := loop.New()
	if err != nil {
		return nil, err
	}
	b, err := brain.Resume(p, &page.Guard{Page: p, Sock: -1, PIDFD: -1}, env, l)
	if err != nil {
		return nil, err
	}
	t := &Taken{&birth{b, nil}}
	in := &client.Side{
		ClientSide: t.Config.Side, PIDFD: clientPIDFD, Main: int(k[2]), Stdin: client.Watch(k[3]),
		Input: client.Watch(k[4]), Stdout: client.Watch(k[5]), Room: [2]client.Watch{client.Watch(k[6]), -1},
	}
	// The proof of a program that has none yet can't be seen any more: it is left alone.
	if p.Unproven || p.Directories[0] != 0 && !group.Populated(t.Group.Members()) {
		t.Client, t.Guard = in, nil
		t.Release()
		return nil, nil
	}
	t.Config.Launcher, _ = group.Identify(os.Getpid())
	_ = unix.Flock(t.Events, unix.LOCK_SH|unix.LOCK_NB) // shows that we live; a member may have locked it
	t.GuardedBy(guard)
	return t, t.GoOn(in)
}

// GuardedBy records the client's guard.
func (t *Taken) GuardedBy(pid int) {
	t.Config.Guard, _ = group.Identify(pid)
	_ = t.Group.Register(t.Config) // it was removed
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
	if err == nil && !t.Page.Unproven { // for a member that leaves the group before Guide
		_ = group.TagOf(t.ID()).Put(pid, pidfd)
	}
	return err
}

// Prove turns a program with Server.Unproven into a server: from then on it has these limits, and a sweep
// stops it if it is an orphan. Guide has to follow.
func (t *Taken) Prove(limits cgroup.Limits, why string) error {
	t.Note(why)
	if err := t.limit(limits); err != nil {
		return err
	}
	t.Page.Unproven = false
	return t.Group.Register(t.Config)
}

// HeldBy reports whether a process can write to the server's stdin.
func (t *Taken) HeldBy(pid int) bool { return t.Client.HeldBy(pid) }

// Guide begins to watch the server. Live has to follow.
func (t *Taken) Guide() error {
	if err := t.Group.TagMembers(); err != nil {
		t.Note("a member that moves to another cgroup is not found: " + protocol.OneLine(err))
	}
	t.Group.Note(t.Config.Notes)
	if err := errors.Join(t.Client.Add(t.Loop), t.Begin()); err != nil {
		return err
	}
	t.TellStart()
	t.Beside.Go(func() {
		t.Group.AwaitAdoption()
		if group.Populated(t.Group.Members()) { // a manager removes a scope without a process
			_ = unix.Shutdown(t.Guard.Sock, unix.SHUT_RDWR) // our guard exits
		}
	})
	return nil
}

func (t *Taken) ID() string                { return t.Config.Group.ID }
func (t *Taken) Name() string              { return t.Config.Name }
func (t *Taken) Backend() protocol.Backend { return t.Config.Group.Backend }

// Release leaves the process alone, in a group that no sweep ends.
func (t *Taken) Release() {
	if t.Page != nil {
		t.Page.FailedStep = page.StepJoin
	}
	if g := t.Group; g != nil {
		_ = g.Disarm() // gone is as good
		t.untag()
		t.dismiss()
		_ = g.Remove() // a sweeper removes what can't be removed now
	}
	t.Close()
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
	t.Beside.Wait()
	if g := t.Group; g != nil {
		g.Close()
	}
	t.CloseHeld()
	for _, fd := range []int{t.Events, t.Client.Main} {
		_ = unix.Close(fd) // fails for none
	}
	if g := t.Guard; g != nil {
		_, _ = unix.Close(g.Sock), unix.Close(g.PIDFD) // it ends with its socket
	}
	t.Client.Close()
	if t.Page != nil {
		t.Page.Close()
	}
	t.Loop.Close()
}

// SetStderr records where the server's stderr goes, with a note or "". Call it before Guide; without a call
// it is the client's.
func (t *Taken) SetStderr(where protocol.Stderr, note string) {
	t.Config.Stderr = where
	t.Note(note)
}
