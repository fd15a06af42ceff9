// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cgroup

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/kernel/linux"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
)

// events is an open cgroup.events file: the kernel marks it with POLLPRI when
// populated or frozen changes.
type events struct {
	fd   int
	path string
}

// State is what cgroup.events says.
type State struct {
	Populated bool
	Frozen    bool
}

// State reads the group's cgroup.events. A group that was removed has no member left
// and reads as neither populated nor frozen.
func (g *Group) State() (State, error) {
	e, err := g.open()
	if err != nil {
		return State{}, ignoreGone(err)
	}
	defer e.close()
	return e.state()
}

// Await blocks until done accepts the state, until the deadline (the zero Time means
// none) or until the descriptor wake (-1 for none) is readable. It returns the last
// state read and whether done accepted it. A group that was removed is as in State.
func (g *Group) Await(deadline time.Time, wake int, done func(State) bool) (State, bool, error) {
	e, err := g.open()
	if gone(err) {
		return State{}, done(State{}), nil
	}
	if err != nil {
		return State{}, false, err
	}
	defer e.close()
	return e.wait(deadline, wake, done)
}

func (g *Group) open() (*events, error) {
	fd, err := g.OpenFile("cgroup.events", unix.O_RDONLY)
	return &events{fd: fd, path: g.path}, err
}

func ignoreGone(err error) error {
	if gone(err) {
		return nil
	}
	return err
}

func (e *events) close() { _ = unix.Close(e.fd) } // read only

func (e *events) state() (State, error) {
	var buf [256]byte
	n, err := unix.Pread(e.fd, buf[:], 0)
	for err == unix.EINTR {
		n, err = unix.Pread(e.fd, buf[:], 0)
	}
	if gone(err) {
		return State{}, nil
	}
	if err != nil {
		return State{}, fmt.Errorf("read cgroup.events of %q: %w", e.path, err)
	}
	return parseState(buf[:n]), nil
}

// parseState takes an unknown "populated" for true: to believe in a member that is
// not there costs time, the other mistake costs a survivor.
func parseState(b []byte) State {
	populated, ok := proc.Keyed(b, "populated")
	frozen, _ := proc.Keyed(b, "frozen")
	return State{Populated: !ok || populated != 0, Frozen: frozen != 0}
}

// The kernel throttles the notification of cgroup.events to one in 10 ms and
// file, so that a poll straight after a write wakes that much too late. Reading
// the file again after these pauses finds the change in some 0.2 ms; what takes
// longer is left to poll.
var rereads = [...]time.Duration{
	20 * time.Microsecond, 40 * time.Microsecond, 80 * time.Microsecond, 160 * time.Microsecond,
	320 * time.Microsecond, 640 * time.Microsecond, 1280 * time.Microsecond,
}

// A notification that the kernel holds back is dropped when the group is removed, which wakes
// nobody by itself (seen on Linux 6.18): who waits for what another removes would wait for ever. So
// the file is read again after a while, too, and then after twice that.
const (
	lookAgain     = 10 * time.Millisecond
	lookAgainMost = time.Second
)

func (e *events) wait(deadline time.Time, wake int, done func(State) bool) (State, bool, error) {
	for i, again := 0, lookAgain; ; i++ {
		st, err := e.state()
		if err != nil || done(st) {
			return st, err == nil, err
		}
		if over(deadline) {
			return st, false, nil
		}
		if i < len(rereads) {
			pause(rereads[i]) // the one bounded re-read, see rereads
			continue
		}
		woken, err := e.poll(earlier(deadline, time.Now().Add(again)), wake)
		if err != nil || woken {
			return st, false, err
		}
		again = min(2*again, lookAgainMost)
	}
}

// earlier takes the zero Time of a deadline for never.
func earlier(deadline, t time.Time) time.Time {
	if deadline.IsZero() || t.Before(deadline) {
		return t
	}
	return deadline
}

// pause is not time.Sleep, which in an idle program takes a millisecond at least: the
// runtime waits for its timers in epoll_wait.
func pause(d time.Duration) {
	ts := unix.NsecToTimespec(d.Nanoseconds())
	_ = unix.Nanosleep(&ts, nil) // a signal may end it early, which is as good
}

func over(deadline time.Time) bool {
	return !deadline.IsZero() && time.Until(deadline) <= 0
}

// poll waits for the next change, and tells whether wake came instead.
func (e *events) poll(deadline time.Time, wake int) (woken bool, err error) {
	fds, err := linux.PollUntil(deadline, unix.PollFd{Fd: int32(e.fd), Events: unix.POLLPRI}, unix.PollFd{Fd: int32(wake), Events: unix.POLLIN})
	if err != nil {
		return false, fmt.Errorf("wait for cgroup.events of %q: %w", e.path, err)
	}
	return fds[1].Revents != 0, nil
}
