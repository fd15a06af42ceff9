// SPDX-License-Identifier: Apache-2.0

package launcher

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/kernel/linux"
	"github.com/mcpscope/mcpscope/internal/server/backend"
	"github.com/mcpscope/mcpscope/internal/server/client"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// Taken is a server that its client has started, in a group of its own. This process is its brain, as it is
// of others; a guard watches it.
type Taken struct {
	*birth
	Alive int // hangs up when guard and later brains have exited; then call Over
}

// Take puts a process into a new group, which has its guard first. Guide or Release has to follow. The pidfd
// of the process is closed with the server.
func (s *Server) Take(r client.Child) (*Taken, error) {
	b, err := s.birth()
	if err != nil {
		_ = unix.Close(r.PIDFD) // a pidfd
		return nil, err
	}
	b.Config.Taken = true
	t := &Taken{b, -1}
	if err := t.take(r); err != nil {
		t.Release()
		return nil, err
	}
	return t, nil
}

func (t *Taken) take(r client.Child) (err error) {
	if t.Client, t.Held, err = client.WatchChild(r); err != nil {
		return err
	}
	if err := t.Open(t.server.Executable); err != nil {
		return err
	}
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return fmt.Errorf("create pipe: %w", err)
	}
	t.Alive = ends[0]
	defer unix.Close(ends[1]) // the guard's from then on
	t.ShareClient(ends[1])
	if err := t.acquire(); err != nil {
		return err
	}
	return t.TakeAlso(r.PID, r.PIDFD)
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
	if err == nil { // for a member that leaves the group before Guide
		_ = group.TagOf(t.ID()).Put(pid, pidfd)
	}
	return err
}

// Guide begins to watch the server, and has its guard do so. Live has to follow.
func (t *Taken) Guide() error {
	if err := t.Group.TagMembers(); err != nil {
		t.Note("a member that moves to another cgroup is not found: " + protocol.OneLine(err))
	}
	if err := t.Client.Add(t.Loop); err != nil {
		return err
	}
	if err := t.begin(); err != nil {
		return err
	}
	if errno := t.Guard.Go(t.Group.Directories()); errno != 0 {
		return fmt.Errorf("begin to watch: the guard: %w", errno)
	}
	t.TellStart()
	return nil
}

// Live returns when nothing is left of the server, or when a later brain has replaced ours. Then Alive
// reports the end.
func (t *Taken) Live() {
	t.birth.Live()
	_ = unix.Close(t.Guard.Sock) // a guard that still has something to do starts a later brain
}

func (t *Taken) ID() string                { return t.Config.Group.ID }
func (t *Taken) Backend() protocol.Backend { return t.Config.Group.Backend }

// Wake continues a guard that was stopped.
func (t *Taken) Wake() {
	_ = unix.PidfdSendSignal(t.Guard.PIDFD, unix.SIGCONT, nil, 0) // gone is as good
}

// Kill kills the guard and all members of a server that does not exit by itself.
func (t *Taken) Kill() {
	_ = unix.PidfdSendSignal(t.Guard.PIDFD, unix.SIGKILL, nil, 0) // as above
	_, _ = t.Group.EndWithTagged(freeze.Stop{})
}

// Over kills at once the members that are left after brain and guard were killed, perhaps by a member.
func (t *Taken) Over() {
	if group.Populated(t.Group.Members()) {
		_, _ = t.Group.EndWithTagged(freeze.Stop{})
	}
	_ = t.Group.Remove() // as a rule it no longer exists
	go t.Close()         // it may wait for a manager that hangs
}

// Release leaves the process alone, in a group that no sweep ends.
func (t *Taken) Release() {
	if g := t.Group; g != nil {
		_ = g.Disarm() // gone is as good
		t.untag()
		t.dismiss()
		_ = g.Remove() // a sweeper removes what can't be removed now
	}
	t.Close()
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
	t.Beside.Wait()
	if g := t.Group; g != nil {
		g.Close()
	}
	t.CloseHeld()
	for _, fd := range []int{t.Alive, t.Events, t.Client.Main} {
		_ = unix.Close(fd) // fails for none
	}
	if t.Guard != nil {
		_ = unix.Close(t.Guard.PIDFD)
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
