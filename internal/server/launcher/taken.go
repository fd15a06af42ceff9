// SPDX-License-Identifier: Apache-2.0

package launcher

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/kernel/linux"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/server/backend"
	"github.com/mcpscope/mcpscope/internal/server/client"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// Taken is a server that its client has started, in a group of its own. This process is its brain, as it is
// of others; a guard watches it.
type Taken struct {
	b     *birth
	main  int // pidfd of the process that was taken
	alive int // hangs up when guard and later brains have exited
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
	t := &Taken{b: b, main: r.PIDFD, alive: -1}
	if err := t.take(r); err != nil {
		t.Release()
		return nil, err
	}
	return t, nil
}

func (t *Taken) take(r client.Child) (err error) {
	b := t.b
	if b.Client, b.Held, err = client.WatchChild(r); err != nil {
		return err
	}
	if err := b.Open(b.server.Executable); err != nil {
		return err
	}
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return fmt.Errorf("create pipe: %w", err)
	}
	t.alive = ends[0]
	defer unix.Close(ends[1]) // the guard's from then on
	b.ShareClient(ends[1])
	if err := b.acquire(); err != nil {
		return err
	}
	return t.TakeAlso(r.PID, r.PIDFD)
}

// Group is nil before it is made, and no tree: that can't take in a process that is there already.
func (t *Taken) Group() *group.ControlGroup { return t.b.Group }

// TakeAlso puts another process into the same group, which the first one has started. It may be there
// already.
func (t *Taken) TakeAlso(pid, pidfd int) error {
	err := t.Group().Payload.Take(pid)
	if (errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM)) && t.Group().Managed {
		err = t.attach(pid) // of a login's session, whose processes only its manager may move here
	}
	if err == nil && linux.Ended(pidfd) {
		err = unix.ESRCH // a group is entered by pid, which may be another process's by now
	}
	if err == nil { // for a member that leaves the group before Guide
		_ = group.TagOf(t.ID()).Put(pid, pidfd)
	}
	return err
}

// attach has the manager do it that the group is from.
func (t *Taken) attach(pid int) error {
	kind := systemd.System
	if t.Backend() == protocol.SystemdUser {
		kind = systemd.User
	}
	conn, err := systemd.Dial(kind, backend.BusWithin)
	if err != nil {
		return err
	}
	defer conn.Close()
	return conn.Attach(t.Group().Dir, "/"+protocol.PayloadName, []int{pid})
}

// Guide begins to watch the server, and has its guard do so. Live has to follow.
func (t *Taken) Guide() error {
	b := t.b
	if err := t.Group().TagMembers(); err != nil {
		b.Note("a member that moves to another cgroup is not found: " + protocol.OneLine(err))
	}
	if err := b.WatchClient(); err != nil {
		return err
	}
	if err := b.begin(); err != nil {
		return err
	}
	b.Begun = true
	if err := b.Guard.Go(b.Group.Directories()); err != nil {
		return err
	}
	b.Group.Adopt()
	b.TellStart()
	return nil
}

// Live returns when nothing is left of the server, or when a later brain has replaced ours. Then FD reports
// the end.
func (t *Taken) Live() {
	t.b.Live()
	_ = unix.Close(t.b.Guard.Sock) // a guard that still has something to do starts a later brain
}

// ID and Backend are for people.
func (t *Taken) ID() string                { return t.b.Config.Group.ID }
func (t *Taken) Backend() protocol.Backend { return t.b.Config.Group.Backend }

// FD hangs up when guard and later brains have exited; then call Over.
func (t *Taken) FD() int { return t.alive }

// Wake continues a guard that was stopped.
func (t *Taken) Wake() {
	_ = unix.PidfdSendSignal(t.b.Guard.PIDFD, unix.SIGCONT, nil, 0) // gone is as good
}

// Kill kills the guard and all members of a server that does not exit by itself.
func (t *Taken) Kill() {
	_ = unix.PidfdSendSignal(t.b.Guard.PIDFD, unix.SIGKILL, nil, 0) // as above
	_, _ = t.Group().EndWithTagged(freeze.Stop{})
}

// Over kills at once the members that are left after brain and guard were killed, perhaps by a member.
func (t *Taken) Over() {
	if group.Populated(t.Group().Members()) {
		_, _ = t.Group().EndWithTagged(freeze.Stop{})
	}
	_ = t.Group().Remove() // as a rule it no longer exists
	go t.Close()           // it may wait for a manager that hangs
}

// Release leaves the process alone, in a group that no sweep ends.
func (t *Taken) Release() {
	if g := t.Group(); g != nil {
		_ = g.Disarm() // gone is as good
		t.untag()
		t.b.dismiss()
		_ = g.Remove() // a sweeper removes what can't be removed now
	}
	t.Close()
}

// untag gives up the race with members that fork at some time.
func (t *Taken) untag() {
	tag := group.TagOf(t.ID())
	for tagged, try := true, 0; tagged && try < 100; try++ {
		tagged = false // a child may have been forked before its parent's tag was removed
		pids, _ := t.Group().Payload.Members()
		for _, pid := range pids {
			tagged = tagged || tag.On(pid)
			tag.Remove(pid)
		}
	}
}

// Close gives descriptors and memory back.
func (t *Taken) Close() {
	b := t.b
	b.Beside.Wait()
	if g := t.Group(); g != nil {
		g.Close()
		_ = g.Parent.Close() // a directory
	}
	b.CloseHeld()
	fds := []int{t.alive, b.Events, t.main}
	if b.Guard != nil {
		fds = append(fds, b.Guard.PIDFD)
	}
	for _, fd := range fds {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
	if b.Client != nil {
		b.Client.Close()
	}
	if b.Page != nil {
		b.Page.Close()
	}
	b.Loop.Close()
}

// SetStderr records where the server's stderr goes, with a note or "". Call it before Guide; without a call
// it is the client's.
func (t *Taken) SetStderr(where protocol.Stderr, note string) {
	t.b.Config.Stderr = where
	if note != "" {
		t.b.Note(note)
	}
}
