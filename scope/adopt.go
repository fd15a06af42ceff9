//go:build linux

package scope

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/poll"
	"github.com/mcpscope/mcpscope/proc"
	"github.com/mcpscope/mcpscope/systemd"
)

// Child is a process of the client's that is about to become a server. Whoever knows of it
// keeps it from forking meanwhile.
type Child struct {
	PID         int
	PIDFD       int
	ClientPIDFD int
}

// Taken is a server that its client has started, in a group of its own.
type Taken struct {
	l      *launcher
	theirs control
	origin string // the cgroup that it was in
	guided bool
}

// guideWithin is how long a supervisor may take to say that it has the server.
const guideWithin = 10 * time.Second

// Take puts a process into a new group. Guide or Release has to follow.
func (s *Server) Take(r Child) (*Taken, error) {
	l := &launcher{server: s, child: &r, pidfd: -1, config: s.config()}
	t := &Taken{l: l}
	var err error
	if t.origin, _, err = proc.ReadCgroup(r.PID); err != nil {
		return nil, err
	}
	if l.client, l.config.Held, err = watchChild(r); err != nil {
		return nil, err
	}
	l.config.Main = r.PIDFD
	if t.theirs, err = l.connect(); err == nil {
		err = l.settle()
		l.closePlaces()
	}
	if err == nil {
		err = t.group().payload.Take(r.PID)
	}
	if err == nil && poll.Ended(r.PIDFD) {
		err = unix.ESRCH // a group is entered by pid, so that may be somebody else's by now
	}
	if err != nil {
		t.Release()
		return nil, err
	}
	t.mark(r.PID, r.PIDFD)
	return t, nil
}

// mark is for a member that may run before there is a supervisor, and leave the group. It marks those
// that it can't here.
func (t *Taken) mark(pid, pidfd int) { _ = markOf(t.group().id).Put(pid, pidfd) }

// group: a tree can't take in who is there already, so nobody is asked for one.
func (t *Taken) group() *controlGroup {
	g, _ := t.l.group.(*controlGroup) // nil before it is made
	return g
}

// TakeAlso puts another process into the same group, which the first one has started before. It may be
// there already.
func (t *Taken) TakeAlso(pid, pidfd int) error {
	err := t.group().payload.Take(pid)
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
		err = t.attach(pid) // of a login's session, whose processes only its manager may move here
	}
	if err != nil {
		return err
	}
	t.mark(pid, pidfd)
	return nil
}

// attach has the manager do it that the group is from.
func (t *Taken) attach(pid int) error {
	g := t.group()
	kind, ours := map[Backend]systemd.Kind{SystemdUser: systemd.User, SystemdSystem: systemd.System}[t.l.backend]
	if !ours {
		return unix.EACCES
	}
	conn, err := systemd.Dial(kind, soleWithin)
	if err != nil {
		return err
	}
	defer conn.Close()
	return conn.Attach(g.dir, "/"+payloadName, []int{pid}, soleWithin)
}

// Guide starts the supervisor, and returns when that watches the server.
func (t *Taken) Guide() error {
	if err := t.l.post(); err != nil {
		return err
	}
	t.theirs.close()
	if !awaitEnd(t.l.control.in, unix.POLLIN, guideWithin) {
		return fmt.Errorf("%w: it says nothing", errSpawn)
	}
	m, err := t.l.control.receive(unix.MSG_DONTWAIT)
	switch {
	case errors.Is(err, errClosed):
		return errUnheard
	case err != nil:
		return err
	case m.Type != sayStarted:
		return m.failure("")
	}
	for _, fd := range m.fds {
		_ = unix.Close(fd) // the socket tells of its end
	}
	t.guided = true
	t.letGo()
	return nil
}

// letGo closes what the supervisor has now.
func (t *Taken) letGo() {
	t.l.client.stdin.Close()
	t.l.client.input.Close()
	t.l.client.stdout.Close()
	if t.l.config.Held >= 0 {
		_ = unix.Close(t.l.config.Held) // a copy
	}
	t.l.client.stdin, t.l.client.input, t.l.client.stdout, t.l.config.Held = nil, nil, nil, -1
}

// ID and Backend are for people.
func (t *Taken) ID() string       { return t.l.group.ident() }
func (t *Taken) Backend() Backend { return t.l.backend }
func (t *Taken) Notes() []string  { return t.l.notes }

// FD hangs up when the supervisor has gone; then call Over.
func (t *Taken) FD() int { return t.l.control.in }

// Wake continues a supervisor that was stopped, which can't notice that the client is gone.
func (t *Taken) Wake() { t.l.group.wakeSupervisor() }

// Kill ends everybody, the supervisor too: one that does not do so itself.
func (t *Taken) Kill() { _, _ = t.l.group.endAll() }

// Over ends what a supervisor has left that was killed, at once: whoever killed it may be a
// member.
func (t *Taken) Over() error {
	all, _ := t.l.control.pending()
	ended := false
	for _, m := range all {
		ended = ended || m.Type == sayEnded
	}
	var err error
	if !ended {
		err = t.l.supervisorDied()
	}
	if t.l.subreaper {
		reapAll(func(int, unix.WaitStatus) {}) // nobody else does
	}
	t.close()
	return err
}

// Release puts everybody back to where the process was, and removes the group.
func (t *Taken) Release() {
	if t.group() != nil {
		t.putBack()
	}
	t.l.control.close() // a supervisor that waits to be told of the group ends at this
	if t.group() != nil {
		t.l.removeGroup()
	}
	t.close()
}

// releaseTries bounds the race with members that fork.
const releaseTries = 100

func (t *Taken) putBack() {
	here, err := positionOf(os.Getpid())
	if err != nil {
		return
	}
	defer here.root.Close()
	origin, err := here.root.Child("./" + strings.TrimPrefix(t.origin, "/"))
	if err != nil {
		return // it has gone: then the group goes on without a supervisor, until a sweep
	}
	defer origin.Close()
	for range releaseTries {
		pids, err := t.group().payload.Members()
		if err != nil || len(pids) == 0 {
			return
		}
		for _, pid := range pids {
			_ = origin.Take(pid) // it may have ended
		}
	}
}

func (t *Taken) close() {
	t.letGo()
	t.theirs.close()
	t.l.control.close()
	if g := t.group(); g != nil {
		g.close()
		_ = g.parent.Close() // a directory
	}
}

// closePlaces keeps what the group needs.
func (l *launcher) closePlaces() {
	if l.here.root != nil {
		_ = l.here.root.Close()
	}
	g, _ := l.group.(*controlGroup)
	for _, p := range l.places {
		if d, ours := p.(directory); ours && (g == nil || g.parent != d.parent) {
			_ = d.parent.Close() // a directory, like all of these
		}
	}
}

// Rename is for a name that was found out after Take, before Guide.
func (t *Taken) Rename(name string) {
	t.l.config.Name, t.l.server.Name = name, name
	_ = t.group().payload.SetAttr(attrName, name) // for people only
}
