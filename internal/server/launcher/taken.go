// SPDX-License-Identifier: Apache-2.0

//go:build linux

package launcher

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/kernel/linux"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/kernel/spawn"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/server/backend"
	"github.com/mcpscope/mcpscope/internal/server/client"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/hierarchy"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// Taken is a server that its client has started, in a group of its own. A brain beside the group, with a guard, stops it; the
// caller only waits for the end of both.
type Taken struct {
	b       *brain
	server  *Server
	child   client.Child
	origin  string // the cgroup that it was in
	back    hierarchy.WayBack
	alive   int // hangs up when brain and guard have gone
	brainFD int // pidfd of the first brain; -1 before it is started
}

// guideWithin is how long a brain may take to say that it has the server.
const guideWithin = 10 * time.Second

// Take puts a process into a new group. Guide or Release has to follow.
func (s *Server) Take(r client.Child) (*Taken, error) {
	b, err := newBrain(s.config())
	if err != nil {
		return nil, err
	}
	b.config.Taken, b.config.Main = true, r.PIDFD
	t := &Taken{b: b, server: s, child: r, back: hierarchy.NoWayBack(), alive: -1, brainFD: -1}
	if t.origin, err = proc.ReadCgroup(r.PID); err != nil {
		return nil, err
	}
	if b.client, b.config.Held, err = client.WatchChild(r); err != nil {
		t.closeClientDescriptors()
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

// Guide starts the brain, and returns when that watches the server.
func (t *Taken) Guide() error {
	b := t.b
	if err := b.limit(t.server); err != nil {
		return err
	}
	b.group.Note(b.notes)
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return fmt.Errorf("create pipe: %w", err)
	}
	t.alive = ends[0]
	c, in := b.config, b.client
	c.Notes, c.Stderr, c.Alive, c.Payload = b.notes, b.stderr, ends[1], t.Group().Payload.FD()
	c.Stdin, c.Input, c.Stdout, c.ClientPIDFD = in.Stdin.FD(), in.Input.FD(), in.Stdout.FD(), in.PIDFD
	c.Room, c.StdinFile, c.Conveyed, c.Socket, c.Where = in.Room[0].FD(), in.File, in.Conveyed, in.Socket, in.Where
	err := t.startBrain()
	_ = unix.Close(ends[1])
	if err != nil {
		return fmt.Errorf("start the brain: %w", err)
	}
	if !linux.AwaitEnd(t.alive, unix.POLLIN, guideWithin) {
		return errors.New("the brain does not watch the server in time")
	}
	if n, err := unix.Read(t.alive, make([]byte, 1)); n <= 0 || err != nil {
		return errors.New("the brain ended before it watched the server")
	}
	t.closeClientDescriptors()
	t.back.Close()
	return nil
}

// startBrain starts it in the leaf for guards.
func (t *Taken) startBrain() error {
	memory, err := spawn.WriteMemoryFile(protocol.Encode(t.b.config))
	if err != nil {
		return err
	}
	defer unix.Close(memory)
	leaf, err := t.Group().OwnLeaf()
	if err != nil {
		return err
	}
	defer leaf.Close()
	argv, keep := append(protocol.SuperviseArgs(t.server.Name), fmt.Sprint(memory), "0"), append(t.b.config.Inherited(), memory)
	how := &syscall.SysProcAttr{Setpgid: true, PidFD: &t.brainFD, UseCgroupFD: true, CgroupFD: leaf.FD()}
	_, err = spawn.Start(t.server.Executable, argv, protocol.BrainEnv(t.server.Env), keep, how)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) { // seccomp refuses clone3: then it is in the watcher's cgroup
		how.UseCgroupFD = false
		_, err = spawn.Start(t.server.Executable, argv, protocol.BrainEnv(t.server.Env), keep, how)
	}
	return err
}

// closeClientDescriptors closes what the brain has now.
func (t *Taken) closeClientDescriptors() {
	if in := t.b.client; in != nil {
		in.CloseWatches()
	}
	if t.b.config.Held >= 0 {
		_ = unix.Close(t.b.config.Held) // a copy
		t.b.config.Held = -1
	}
}

// ID and Backend are for people.
func (t *Taken) ID() string                { return t.b.config.Group.ID }
func (t *Taken) Backend() protocol.Backend { return t.b.config.Group.Backend }

// FD hangs up when brain and guard have gone; then call Over.
func (t *Taken) FD() int { return t.alive }

// Wake continues a guard that was stopped, which can't notice that the client is gone. It continues its brain.
func (t *Taken) Wake() { t.signal(unix.SIGCONT) }

func (t *Taken) signal(sig unix.Signal) {
	fds := []int{t.brainFD}
	if guard := t.Group().OpenGuard(); guard >= 0 {
		defer unix.Close(guard)
		fds = append(fds, guard)
	}
	for _, fd := range fds {
		if fd >= 0 {
			_ = unix.PidfdSendSignal(fd, sig, nil, 0) // gone is as good
		}
	}
}

// Kill ends everything, brain and guard too: those that do not do so themselves.
func (t *Taken) Kill() {
	t.signal(unix.SIGKILL)
	_, _ = t.Group().EndWithTagged(freeze.Stop{})
}

// Over ends what brain and guard have left that were killed, at once: a member may have done that.
func (t *Taken) Over() error {
	var err error
	if group.Populated(t.Group().Members()) {
		_, err = t.Group().EndWithTagged(freeze.Stop{})
		if err == nil {
			err = errGuard
		}
	}
	_ = t.Group().Remove()                                       // it is gone, as a rule
	linux.AwaitEnd(t.brainFD, unix.POLLIN, protocol.ReactWithin) // it has closed its descriptors, so it is about to end
	t.Close()
	return err
}

// Release puts everybody back to where the process was, and removes the group.
//
// Brain and guard are killed before that: they would end what they know by its tag, wherever that is. The brain is stopped
// first, for it would end the server when the guard dies, as would the guard when the brain does.
func (t *Taken) Release() {
	t.closeClientDescriptors()
	if t.Group() != nil {
		if t.brainFD >= 0 {
			_ = unix.PidfdSendSignal(t.brainFD, unix.SIGSTOP, nil, 0) // gone is as good
			if guard := t.Group().OpenGuard(); guard >= 0 {
				_ = unix.PidfdSendSignal(guard, unix.SIGKILL, nil, 0) // as above
				linux.AwaitEnd(guard, unix.POLLIN, protocol.ReactWithin)
				_ = unix.Close(guard)
			}
			_ = unix.PidfdSendSignal(t.brainFD, unix.SIGKILL, nil, 0) // as above
			linux.AwaitEnd(t.brainFD, unix.POLLIN, protocol.ReactWithin)
		}
		t.putBack()
		_ = t.Group().Remove() // a sweeper removes what can't be removed now
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

// Close gives descriptors back.
func (t *Taken) Close() {
	_ = unix.Waitid(unix.P_PIDFD, t.brainFD, nil, unix.WEXITED|unix.WNOHANG, nil) // it may live, or never have been started
	t.closeClientDescriptors()
	t.back.Close()
	for _, fd := range []*int{&t.alive, &t.brainFD} {
		if *fd >= 0 {
			_ = unix.Close(*fd)
			*fd = -1
		}
	}
	t.b.loop.Close()
	if g := t.Group(); g != nil {
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
