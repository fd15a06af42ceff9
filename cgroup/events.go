//go:build linux

package cgroup

import (
	"errors"
	"fmt"
	"path"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/proc"
)

// Events is an open cgroup.events file: the kernel marks it with POLLPRI when
// populated or frozen changes.
type Events struct {
	fd   int
	path string
}

// State is what cgroup.events says.
type State struct {
	Populated bool
	Frozen    bool
}

// Events opens the group's cgroup.events.
func (g *Group) Events() (*Events, error) {
	fd, err := openRetry(g.fd, "cgroup.events", unix.O_RDONLY)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path.Join(g.path, "cgroup.events"), err)
	}
	return &Events{fd: fd, path: g.path}, nil
}

// Close closes the file.
func (e *Events) Close() error { return unix.Close(e.fd) }

// State reads the file. A group that was removed has no member left and reads as
// neither populated nor frozen.
func (e *Events) State() (State, error) {
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

// Wait blocks until done accepts the state, until the deadline (the zero Time
// means none) or until the descriptor wake (-1 for none) is readable. It returns
// the last state read and whether done accepted it.
func (e *Events) Wait(deadline time.Time, wake int, done func(State) bool) (State, bool, error) {
	for i := 0; ; i++ {
		st, err := e.State()
		if err != nil || done(st) {
			return st, err == nil, err
		}
		if i < len(rereads) && !over(deadline) {
			time.Sleep(rereads[i]) // the one bounded re-read, see rereads
			continue
		}
		more, err := e.poll(deadline, wake)
		if err != nil || !more {
			return st, false, err
		}
	}
}

func over(deadline time.Time) bool {
	return !deadline.IsZero() && time.Until(deadline) <= 0
}

// poll waits for the next change; false means the deadline or wake came first. The
// deadline is a timer's descriptor, not poll's own timeout: that does not run while
// the process is stopped, and whoever stops us again and again would put it off for
// ever.
func (e *Events) poll(deadline time.Time, wake int) (bool, error) {
	timer, err := alarm(deadline)
	if err != nil {
		return false, err
	}
	if timer >= 0 {
		defer unix.Close(timer)
	}
	fds := []unix.PollFd{
		{Fd: int32(e.fd), Events: unix.POLLPRI},
		{Fd: int32(wake), Events: unix.POLLIN}, // poll(2) passes over negative ones
		{Fd: int32(timer), Events: unix.POLLIN},
	}
	for {
		_, err := unix.Poll(fds, -1)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return false, fmt.Errorf("poll cgroup.events of %q: %w", e.path, err)
		}
		return fds[1].Revents == 0 && fds[2].Revents == 0, nil
	}
}

// alarm returns a timerfd that becomes readable at the deadline, -1 for none.
func alarm(deadline time.Time) (int, error) {
	if deadline.IsZero() {
		return -1, nil
	}
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("create timer: %w", err)
	}
	left := max(time.Until(deadline), 1) // 0 would disarm it
	once := unix.ItimerSpec{Value: unix.NsecToTimespec(left.Nanoseconds())}
	if err := unix.TimerfdSettime(fd, 0, &once, nil); err != nil {
		_ = unix.Close(fd)
		return -1, fmt.Errorf("set timer: %w", err)
	}
	return fd, nil
}
