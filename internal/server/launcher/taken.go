// SPDX-License-Identifier: Apache-2.0

//go:build linux

package launcher

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/kernel/linux"
	"github.com/mcpscope/mcpscope/internal/kernel/loop"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/server/backend"
	"github.com/mcpscope/mcpscope/internal/server/client"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/hierarchy"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// Taken is a server that its client has started, in a group of its own. This process is its brain, as it is of others; a
// guard watches it.
type Taken struct {
	b      *brain
	server *Server
	child  client.Child
	origin string // the cgroup that it was in
	back   hierarchy.WayBack
	alive  int // hangs up when guard and later brains have gone
}

// Take puts a process into a new group. Guide or Release has to follow. The pidfd of the process is closed with the server.
func (s *Server) Take(r client.Child) (*Taken, error) {
	b, err := newBrain(s.config())
	if err != nil {
		_ = unix.Close(r.PIDFD) // a pidfd
		return nil, err
	}
	b.config.Taken = true
	t := &Taken{b: b, server: s, child: r, back: hierarchy.NoWayBack(), alive: -1}
	if t.origin, err = proc.ReadCgroup(r.PID); err != nil {
		t.Close()
		return nil, err
	}
	if b.client, b.held, err = client.WatchChild(r); err != nil {
		t.Close()
		return nil, err
	}
	if b.config.Group.ID, err = protocol.NewID(); err == nil {
		err = b.acquire(s, func(p backend.Place) (err error) {
			b.group, err = p.Group(backend.Wanted{Config: b.config, PID: r.PID, Names: func(...string) error { return nil }})
			return err
		})
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
	if err != nil {
		t.Release()
		return nil, err
	}
	t.tag(r.PID, r.PIDFD)
	return t, nil
}

// tag is for a member that leaves the group before there is a brain, which tags those that it can't here.
func (t *Taken) tag(pid, pidfd int) { _ = group.TagOf(t.Group().ID).Put(pid, pidfd) }

// Group: a tree can't take in a process that is there already.
func (t *Taken) Group() *group.ControlGroup {
	g, _ := t.b.group.(*group.ControlGroup) // nil before it is made
	return g
}

// TakeAlso puts another process into the same group, which the first one has started. It may be there already.
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
	kind := map[protocol.Backend]systemd.Kind{protocol.SystemdUser: systemd.User, protocol.SystemdSystem: systemd.System}[t.Backend()]
	conn, err := systemd.Dial(kind, backend.SoleWithin)
	if err != nil {
		return err
	}
	defer conn.Close()
	return conn.Attach(t.Group().Dir, "/"+protocol.PayloadName, []int{pid}, backend.SoleWithin)
}

// Guide starts the guard. Live has to follow.
func (t *Taken) Guide() error {
	b, g := t.b, t.Group()
	if err := b.limit(t.server); err != nil {
		return err
	}
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return fmt.Errorf("create pipe: %w", err)
	}
	t.alive = ends[0]
	defer unix.Close(ends[1]) // the guard's from then on
	if err := b.watchTaken(t.server, g, ends[1]); err != nil {
		return err
	}
	t.back.Close()
	b.tellStart()
	return nil
}

// watchTaken starts the guard of a server that runs already.
func (b *brain) watchTaken(s *Server, g *group.ControlGroup, alive int) error {
	c := b.config
	c.Notes, c.Stderr = b.notes, b.stderr
	c.Stdin, c.Conveyed, c.Socket, c.Where = b.client.File, b.client.Conveyed, b.client.Socket, b.client.Where
	if err := b.loop.Park(); err != nil {
		return err
	}
	if err := b.open(s.Executable); err != nil {
		return err
	}
	leaf, err := g.OwnLeaf()
	if err != nil {
		return err
	}
	defer leaf.Close()
	b.page.Leaf, b.page.Parent = int32(leaf.FD()), int32(g.Parent.FD())
	b.page.Keep[keepAlive] = int32(alive)
	b.page.Keep[keepInput], b.page.Keep[keepRoom] = int32(b.client.Input.FD()), int32(b.client.Room[0].FD())
	b.page.Keep[keepMain] = int32(b.client.Main)
	err = b.page.SetDirectories(g.Dir+"/"+protocol.PayloadName, g.Dir)
	if err == nil {
		err = b.page.SetConfig(protocol.Encode(c))
	}
	if err == nil {
		err = b.watchClient()
	}
	if err == nil {
		err = b.fork(&Server{Name: s.Name, Env: s.Env}, false)
	}
	if err == nil {
		err = b.begin()
	}
	if err != nil {
		return err
	}
	b.publish()
	if err := g.TagMembers(); err != nil {
		b.note("a member that moves to another cgroup is not found: " + protocol.OneLine(err))
	}
	g.Note(b.notes)
	b.begun = true
	return b.guard.Go(g.Payload.FD(), -1)
}

// watchClient is for a server that its client has started.
func (b *brain) watchClient() error {
	if err := b.client.Add(b.loop); err != nil {
		return err
	}
	return b.loop.Add(b.client.Main, loop.TokenMain)
}

// Live returns when nothing is left of the server, or when a later brain has replaced this one. Then FD tells the end.
func (t *Taken) Live() {
	t.b.live()
	_ = unix.Close(t.b.guard.Sock()) // a guard that still has something to do starts a later brain
}

// ID and Backend are for people.
func (t *Taken) ID() string                { return t.b.config.Group.ID }
func (t *Taken) Backend() protocol.Backend { return t.b.config.Group.Backend }

// FD hangs up when guard and later brains have gone; then call Over.
func (t *Taken) FD() int { return t.alive }

// Wake continues a guard that was stopped.
func (t *Taken) Wake() {
	_ = unix.PidfdSendSignal(t.b.guard.PIDFD(), unix.SIGCONT, nil, 0) // gone is as good
}

// Kill ends everything, the guard too: what does not do so itself.
func (t *Taken) Kill() {
	_ = unix.PidfdSendSignal(t.b.guard.PIDFD(), unix.SIGKILL, nil, 0) // as above
	_, _ = t.Group().EndWithTagged(freeze.Stop{})
}

// Over ends what brain and guard have left that were killed, at once: a member may have done that.
func (t *Taken) Over() {
	if group.Populated(t.Group().Members()) {
		_, _ = t.Group().EndWithTagged(freeze.Stop{})
	}
	_ = t.Group().Remove() // it is gone, as a rule
	t.Close()
}

// Release puts everybody back to where the process was, and removes the group.
func (t *Taken) Release() {
	if g := t.Group(); g != nil {
		t.putBack()
		if t.b.guard != nil {
			_ = unix.Close(t.b.guard.Sock()) // it waits for its server
			linux.AwaitEnd(t.b.guard.PIDFD(), unix.POLLIN, protocol.ReactWithin)
		}
		_ = g.Remove() // a sweeper removes what can't be removed now
	}
	t.Close()
}

// releaseTries bounds the race with members that fork.
const releaseTries = 100

// putBack leaves whoever can't be moved back where it is, in a group that no sweep ends.
func (t *Taken) putBack() {
	tag := group.TagOf(t.Group().ID)
	_ = t.Group().Disarm() // gone is as good
	tag.Remove(t.child.PID)
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

// Close gives descriptors and memory back.
func (t *Taken) Close() {
	b, g := t.b, t.Group()
	b.beside.Wait()
	b.closeHeld()
	fds := []int{t.alive, b.events, t.child.PIDFD}
	if b.guard != nil {
		fds = append(fds, b.guard.PIDFD())
	}
	for _, fd := range fds {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
	if b.client != nil {
		b.client.CloseWatches()
	}
	if b.page != nil {
		b.page.Close()
	}
	t.back.Close()
	b.loop.Close()
	if g != nil {
		g.Close()
		_ = g.Parent.Close() // a directory
	}
}

// SetStderr says where the server's stderr goes, with a note or "". It is for whoever has replaced it, before Guide;
// otherwise it is the client's.
func (t *Taken) SetStderr(where protocol.Stderr, note string) {
	t.b.stderr = where
	if note != "" {
		t.b.note(note)
	}
}
