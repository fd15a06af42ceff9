// SPDX-License-Identifier: Apache-2.0

//go:build linux

package launcher

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/linux"
	"github.com/mcpscope/mcpscope/internal/proc"
	"github.com/mcpscope/mcpscope/internal/server/backend"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/hierarchy"
	"github.com/mcpscope/mcpscope/internal/server/lifecycle"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/systemd"
)

// Taken is a server that its client has started, in a group of its own.
type Taken struct {
	l      *launcher
	theirs protocol.Control
	origin string // the cgroup that it was in
	back   hierarchy.WayBack
	guided bool
}

// guideWithin is how long a supervisor may take to say that it has the server.
const guideWithin = 10 * time.Second

// Take puts a process into a new group. Guide or Release has to follow.
func (s *Server) Take(r lifecycle.Child) (*Taken, error) {
	l := &launcher{server: s, child: &r, pidfd: -1, begun: -1, config: s.config(), stderr: protocol.StderrInherit}
	t := &Taken{l: l, back: hierarchy.NoWayBack()}
	var err error
	if t.origin, _, err = proc.ReadCgroup(r.PID); err != nil {
		return nil, err
	}
	if l.client, l.config.Held, err = lifecycle.WatchChild(r); err != nil {
		t.closeClientDescriptors()
		return nil, err
	}
	l.config.Main = r.PIDFD
	if err = l.reapToo(); err == nil {
		t.theirs, err = l.connect()
	}
	if err == nil {
		err = l.acquireGroup()
		l.closePlaces()
	}
	if err == nil {
		t.back, err = hierarchy.OpenWayBack(t.origin, t.Group().Payload)
	}
	if err == nil {
		err = t.enter(r.PID)
	}
	if err == nil && linux.Ended(r.PIDFD) {
		err = unix.ESRCH // a group is entered by pid, so that may be somebody else's by now
	}
	if err == nil {
		t.tag(r.PID, r.PIDFD)
		err = l.employ() // from now on a sweep sees that somebody is about to watch it, however long the rest takes
	}
	if err != nil {
		t.Release()
		return nil, err
	}
	return t, nil
}

// tag is for a member that may run before there is a supervisor, and leave the group. It tags those
// that it can't here.
func (t *Taken) tag(pid, pidfd int) { _ = group.TagOf(t.Group().ID).Put(pid, pidfd) }

// Group: a tree can't take in who is there already, so nobody is asked for one.
func (t *Taken) Group() *group.ControlGroup {
	g, _ := t.l.group.(*group.ControlGroup) // nil before it is made
	return g
}

// TakeAlso puts another process into the same group, which the first one has started before. It may be
// there already.
func (t *Taken) TakeAlso(pid, pidfd int) error {
	if err := t.enter(pid); err != nil {
		return err
	}
	t.tag(pid, pidfd)
	return nil
}

func (t *Taken) enter(pid int) error {
	err := t.Group().Payload.Take(pid)
	if (errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM)) && t.Group().Managed {
		err = t.attach(pid) // of a login's session, whose processes only its manager may move here
	}
	return err
}

// attach has the manager do it that the group is from.
func (t *Taken) attach(pid int) error {
	g := t.Group()
	kind := map[protocol.Backend]systemd.Kind{protocol.SystemdUser: systemd.User, protocol.SystemdSystem: systemd.System}[t.l.backend]
	conn, err := systemd.Dial(kind, backend.SoleWithin)
	if err != nil {
		return err
	}
	defer conn.Close()
	return conn.Attach(g.Dir, "/"+protocol.PayloadName, []int{pid}, backend.SoleWithin)
}

// Guide tells the supervisor where the server is, and returns when that watches it.
func (t *Taken) Guide() error {
	if err := t.l.post(); err != nil {
		return err
	}
	t.Wake() // a member may have stopped it
	t.theirs.Close()
	if !linux.AwaitEnd(t.l.control.In, unix.POLLIN, guideWithin) {
		return fmt.Errorf("%w: it says nothing", protocol.ErrSpawn)
	}
	m, err := t.l.control.Receive(unix.MSG_DONTWAIT)
	switch {
	case errors.Is(err, protocol.ErrClosed):
		return protocol.ErrUnheard
	case err != nil:
		return err
	case m.Type != protocol.SayStarted:
		return m.Failure("")
	}
	for _, fd := range m.FDs {
		_ = unix.Close(fd) // the socket tells of its end
	}
	t.guided = true
	t.closeClientDescriptors()
	t.back.Close()
	return nil
}

// closeClientDescriptors closes what the supervisor has now.
func (t *Taken) closeClientDescriptors() {
	t.l.client.Stdin.Close()
	t.l.client.Input.Close()
	t.l.client.Stdout.Close()
	if t.l.config.Held >= 0 {
		_ = unix.Close(t.l.config.Held) // a copy
	}
	t.l.client.Stdin, t.l.client.Input, t.l.client.Stdout, t.l.config.Held = nil, nil, nil, -1
}

// ID and Backend are for people.
func (t *Taken) ID() string { return t.l.group.Ident() }

func (t *Taken) Backend() protocol.Backend { return t.l.backend }

// FD hangs up when the supervisor has gone; then call Over.
func (t *Taken) FD() int { return t.l.control.In }

// Wake continues a supervisor that was stopped, which can't notice that the client is gone.
func (t *Taken) Wake() { t.l.group.WakeSupervisor() }

// Kill ends everybody, the supervisor too: one that does not do so itself.
func (t *Taken) Kill() { _, _ = t.l.group.EndAll() }

// Over ends what a supervisor has left that was killed, at once: whoever killed it may be a
// member.
func (t *Taken) Over() error {
	all, _ := t.l.control.Pending()
	ended := false
	for _, m := range all {
		ended = ended || m.Type == protocol.SayEnded
	}
	var err error
	if !ended {
		err = t.l.supervisorDied()
	}
	if t.l.subreaper {
		lifecycle.ReapAll() // nobody else does
	}
	t.Close()
	return err
}

// Release puts everybody back to where the process was, and removes the group.
//
// The supervisor is killed before that: it would end what it knows by its tag, wherever that is. That takes
// descriptors, which the first lines give back.
func (t *Taken) Release() {
	t.closeClientDescriptors()
	t.theirs.Close()
	if t.l.begun >= 0 { // until it has been told of its group it is elsewhere
		_ = unix.PidfdSendSignal(t.l.begun, unix.SIGKILL, nil, 0) // gone is as good
	}
	if t.Group() != nil {
		t.l.group.KillSupervisor()
		t.putBack()
	}
	t.l.control.Close() // a supervisor that waits to be told of the group ends at this
	if t.Group() != nil {
		t.l.removeGroup()
	}
	t.Close()
}

// releaseTries bounds the race with members that fork.
const releaseTries = 100

// putBack leaves whoever can't be moved back where it is, in a group that no sweep ends.
func (t *Taken) putBack() {
	tag := group.TagOf(t.Group().ID)
	_ = t.Group().Disarm() // gone is as good
	tag.Remove(t.l.child.PID)
	for range releaseTries {
		pids := t.back.Members()
		if nested, err := t.Group().Payload.Members(); err == nil {
			pids = nested // with those in directories of its own
		}
		tagged := false // a child may have been forked before its parent's tag was gone
		for _, pid := range pids {
			tagged = tagged || tag.On(pid)
			tag.Remove(pid)
			t.back.Put(pid)
		}
		if len(pids) == 0 || !t.back.Exists() && !tagged {
			return
		}
	}
}

func (t *Taken) Close() {
	t.closeClientDescriptors()
	t.back.Close()
	t.theirs.Close()
	t.l.control.Close()
	if t.l.begun >= 0 {
		_ = unix.Close(t.l.begun)
		t.l.begun = -1
	}
	if g := t.Group(); g != nil {
		g.Close()
		_ = g.Parent.Close() // a directory
	}
}

// closePlaces keeps what the group needs.
func (l *launcher) closePlaces() {
	if l.here.Root != nil {
		_ = l.here.Root.Close()
	}
	g, _ := l.group.(*group.ControlGroup)
	for _, p := range l.places {
		if d, ours := p.(backend.Directory); ours && (g == nil || g.Parent != d.Parent) {
			_ = d.Parent.Close() // a directory, like all of these
		}
	}
}

// SetStderr says where the server's stderr goes, with a note or "". It is for whoever has replaced it, before Guide;
// otherwise it is the client's.
func (t *Taken) SetStderr(where protocol.Stderr, note string) {
	t.l.stderr = where
	if note != "" {
		t.l.notes = append(t.l.notes, note)
	}
}
