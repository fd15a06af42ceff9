//go:build linux

package scope

import (
	"encoding/json"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// protocolVersion is that of the messages, the configuration and the attributes.
const protocolVersion = 1

// maxMessage bounds a message; the longest is ended with its notes.
const maxMessage = 16 << 10

// The messages between launcher and supervisor, each a packet. EOF means that the
// other side is dead.
type message struct {
	Type verb `json:"type"`

	Place  *placed `json:"place,omitempty"`  // place
	Signal int     `json:"signal,omitempty"` // signal
	Step   uint32  `json:"step,omitempty"`   // failed
	Errno  int     `json:"errno,omitempty"`  // failed
	Text   string  `json:"text,omitempty"`   // failed
	// Due is by when, in nanoseconds from now, the supervisor will have acted; 0 if it
	// has nothing to end. (answer)
	Due int64 `json:"due,omitempty"`
	// Asked says that the members have been asked to end. (answer)
	Asked  bool     `json:"asked,omitempty"`
	Status *int     `json:"status,omitempty"` // ended: what wait(2) said of the main process
	Cause  Cause    `json:"cause,omitempty"`  // ended
	Notes  []string `json:"notes,omitempty"`  // ended
	Stuck  []string `json:"stuck,omitempty"`  // ended: members that can't be killed yet

	fds []int // place, started: passed beside the packet
}

// placed tells the supervisor where its group is.
type placed struct {
	ID      string  `json:"id"`
	Dir     string  `json:"dir"`
	Backend Backend `json:"backend"`
	// Managed: systemd removes the group when it is empty.
	Managed bool `json:"managed,omitempty"`
	// Enter: the supervisor was not born in the group.
	Enter bool `json:"enter,omitempty"`
}

type verb string

const (
	// launcher → supervisor
	sayStart    verb = "start"    // never sent: being spawned says it
	sayPlace    verb = "place"    // with the payload's directory, lock included: start the server there
	saySignal   verb = "signal"   // the client sent Signal
	sayLook     verb = "look"     // something has happened that ends the server
	sayTakeover verb = "takeover" // you did not answer: I finish alone
	// supervisor → launcher
	sayStarted verb = "started" // with pidfds of the supervisor and the main process
	sayFailed  verb = "failed"
	sayAnswer  verb = "answer" // to signal and look
	sayEnded   verb = "ended"  // nothing is left but the supervisor
)

// control is one end of the socket.
type control struct {
	fd  int
	buf []byte
}

func newControl() (ours, theirs control, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return ours, theirs, fmt.Errorf("create control socket: %w", err)
	}
	return newEnd(fds[0]), newEnd(fds[1]), nil
}

func newEnd(fd int) control { return control{fd, make([]byte, maxMessage)} }

// send never blocks: a peer that has let its queue fill up counts as stopped.
func (c control) send(m message, fds ...int) error {
	b, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("encode %s: %w", m.Type, err)
	}
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	for {
		err = unix.Sendmsg(c.fd, b, rights, nil, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("send %s: %w", m.Type, err)
	}
	return nil
}

// errClosed says that the other end is gone.
var errClosed = errors.New("the other side has gone")

// receive waits for a message, or with unix.MSG_DONTWAIT gives EAGAIN.
func (c control) receive(flags int) (message, error) {
	var m message
	oob := make([]byte, unix.CmsgSpace(4*4))
	n, oobn, err := recvmsg(c.fd, c.buf, oob, flags)
	switch {
	case errors.Is(err, unix.ECONNRESET):
		// the other side has gone without reading all, but what it said is still here
		return c.receive(flags)
	case err == nil && n == 0:
		return m, errClosed
	case err != nil:
		return m, fmt.Errorf("receive: %w", err)
	}
	if err := json.Unmarshal(c.buf[:n], &m); err != nil {
		return m, fmt.Errorf("decode message: %w", err)
	}
	m.fds = received(oob[:oobn])
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

// pending receives all that has arrived. closed says that nothing more can.
func (c control) pending() (all []message, closed bool) {
	for {
		m, err := c.receive(unix.MSG_DONTWAIT)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return all, false
		case err != nil:
			return all, true
		}
		all = append(all, m)
	}
}

func (c control) close() { _ = unix.Close(c.fd) }
