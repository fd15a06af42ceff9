// SPDX-License-Identifier: Apache-2.0

//go:build linux

package protocol

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/spawn"
)

// ProtocolVersion is that of the messages, the configuration and the attributes.
const ProtocolVersion = 1

// maxMessage bounds a message; the longest is ended with its notes.
const maxMessage = 16 << 10

// The messages between launcher and supervisor, each a packet. EOF means that the
// other side is dead.
type Message struct {
	Type verb

	Place  *Placed  // place
	Signal int      // signal, stopped
	Step   uint32   // failed
	Errno  int      // failed
	Text   string   // failed
	Limit  bool     // failed: it is a LimitError
	Hint   string   // failed: of it
	Status *int     // ended: what wait(2) said of the main process
	Cause  Cause    // ended
	Notes  []string // ended
	Stuck  []string // ended: members that can't be killed yet

	FDs []int // place, started: passed beside the packet
}

func (m *Message) fields(w *wire) {
	text(w, &m.Type)
	if optional(w, &m.Place) {
		m.Place.fields(w)
	}
	number(w, &m.Signal)
	number(w, &m.Step)
	number(w, &m.Errno)
	text(w, &m.Text)
	flag(w, &m.Limit)
	text(w, &m.Hint)
	if optional(w, &m.Status) {
		number(w, m.Status)
	}
	text(w, &m.Cause)
	texts(w, &m.Notes)
	texts(w, &m.Stuck)
}

// Placed tells the supervisor where its group is.
type Placed struct {
	ID      string
	Dir     string
	Backend Backend
	// Managed: systemd removes the group when it is empty.
	Managed bool
	// Enter: the supervisor was not born in the group.
	Enter bool
	// Launcher is who has started the server, where no attribute says it.
	Launcher string
	// Guard is the pid of a supervisor's guard, in a tree.
	Guard int
	// Notes say why it is not a better backend.
	Notes []string
	// Stderr is what a server has as that whose client has started it.
	Stderr Stderr
}

func (p *Placed) fields(w *wire) {
	text(w, &p.ID)
	text(w, &p.Dir)
	text(w, &p.Backend)
	flag(w, &p.Managed)
	flag(w, &p.Enter)
	text(w, &p.Launcher)
	number(w, &p.Guard)
	texts(w, &p.Notes)
	text(w, &p.Stderr)
}

// MovedUnknown begins a note.
const MovedUnknown = "processes that have moved to another cgroup could not be looked for: "

type verb string

const (
	// launcher → supervisor
	SayPlace  verb = "place"  // with the payload's directory, lock included: start the server there
	SaySignal verb = "signal" // the client sent Signal
	SayLook   verb = "look"   // something has happened that ends the server
	// supervisor → launcher
	SayStarted verb = "started" // with pidfds of the supervisor and the main process
	SayFailed  verb = "failed"
	SayStopped verb = "stopped" // the main process, by Signal
	SayEnded   verb = "ended"   // nothing is left but the supervisor
)

// Control is one end of two sockets, one for each direction: to send to a peer that is just closing its
// end purges what that has sent before (unix_dgram_sendmsg until Linux 6.2 and 5.15.86; 5.10 still does).
type Control struct {
	In, Out int
	buf     []byte
}

func NewControl() (ours, theirs Control, err error) {
	ours, theirs = NewEnd(0, 0), NewEnd(0, 0)
	for _, way := range [][2]*int{{&ours.Out, &theirs.In}, {&theirs.Out, &ours.In}} {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			ours.Close()
			theirs.Close()
			return ours, theirs, fmt.Errorf("create control socket: %w", err)
		}
		*way[0], *way[1] = fds[0], fds[1]
	}
	return ours, theirs, nil
}

func NewEnd(in, out int) Control { return Control{in, out, make([]byte, maxMessage)} }

// sendTries: a word that is lost for want of memory at one moment would be taken for a death.
const sendTries = 16

// Send never blocks: a peer that has let its queue fill up counts as stopped.
func (c Control) Send(m Message, fds ...int) error {
	m.Notes, m.Stuck = fitting(m.Notes), fitting(m.Stuck)
	if m.Place != nil {
		at := *m.Place
		at.Notes = fitting(at.Notes)
		m.Place = &at
	}
	said := Encode(&m)
	var err error
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	for range sendTries {
		err = unix.Sendmsg(c.Out, said, rights, nil, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT)
		if !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.ENOMEM) && !errors.Is(err, unix.ENOBUFS) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("send %s: %w", m.Type, err)
	}
	return nil
}

// fitting are the first of them, for a message that is cut off can't be read.
func fitting(all []string) []string {
	left := maxMessage / 4
	for i, text := range all {
		if left -= len(text); left < 0 {
			cut := strings.ToValidUTF8(text[:len(text)+left], "")
			return append(all[:i:i], cut+"…", fmt.Sprintf("%d more", len(all)-i-1))
		}
	}
	return all
}

// ErrClosed says that the other end is gone.
var ErrClosed = errors.New("the other side has gone")

// Receive waits for a message, or with unix.MSG_DONTWAIT gives EAGAIN.
func (c Control) Receive(flags int) (Message, error) {
	var m Message
	oob := make([]byte, unix.CmsgSpace(4*4))
	n, oobn, err := recvmsg(c.In, c.buf, oob, flags)
	if err == nil && n == 0 {
		// The kernel looks for a message and then for the end; what comes with the end,
		// between the two, shows to the second look alone.
		n, oobn, err = recvmsg(c.In, c.buf, oob, flags)
	}
	switch {
	case err == nil && n == 0:
		return m, ErrClosed
	case err != nil:
		return m, fmt.Errorf("receive: %w", err)
	}
	if err := Decode(c.buf[:n], &m); err != nil {
		return m, fmt.Errorf("decode message: %w", err)
	}
	m.FDs = received(oob[:oobn])
	return m, nil
}

func recvmsg(fd int, buf, oob []byte, flags int) (n, oobn int, err error) {
	for {
		n, oobn, _, _, err = unix.Recvmsg(fd, buf, oob, flags|unix.MSG_CMSG_CLOEXEC)
		if !errors.Is(err, unix.EINTR) {
			return n, oobn, err
		}
	}
}

func received(oob []byte) []int {
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil || len(msgs) == 0 {
		return nil
	}
	fds, _ := unix.ParseUnixRights(&msgs[0]) // an odd message carries none
	return fds
}

// Pending receives all that has arrived. closed says that nothing more can.
func (c Control) Pending() (all []Message, closed bool) {
	for {
		m, err := c.Receive(unix.MSG_DONTWAIT)
		switch {
		case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.ENOMEM): // no memory for it, and it is still there
			return all, false
		case err != nil:
			return all, true
		}
		all = append(all, m)
	}
}

// Close may be called again, and for one that was never opened: 0 is the client's.
func (c *Control) Close() {
	for _, fd := range []*int{&c.In, &c.Out} {
		if *fd > 0 {
			_ = unix.Close(*fd)
			*fd = 0
		}
	}
}

// Failure turns a failed start into the error that it was in the supervisor.
func (m Message) Failure(path string) error {
	if spawn.Step(m.Step) == spawn.StepExec {
		return &CommandError{path, unix.Errno(m.Errno)}
	}
	if m.Limit {
		return &LimitError{Text: m.Text, Step: m.Hint}
	}
	if m.Errno != 0 {
		errno := unix.Errno(m.Errno)
		return fmt.Errorf("%s: %w", strings.TrimSuffix(m.Text, ": "+errno.Error()), errno)
	}
	return errors.New(m.Text)
}

// StopSignal is sent to a supervisor to have it end its server: by systemd, as the scope's KillSignal=, and
// by us. Its default action is none, and the Go runtime leaves it blocked where it was: sent to a
// supervisor that is just starting, SIGTERM would end it.
const StopSignal = unix.SIGWINCH

// KillSignal is sent to a supervisor to end the term grace of its server as well. A supervisor that is just starting dies
// of it, and its launcher kills the server.
const KillSignal = unix.SIGUSR2
