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

// State is the content of cgroup.events.
type State struct {
	Populated bool
	Frozen    bool
}

// State reads cgroup.events. A group that was removed is neither populated nor frozen.
func (g *Group) State() (State, error) {
	fd, err := g.OpenFile("cgroup.events", unix.O_RDONLY)
	if err != nil {
		return State{}, ignoreGone(err)
	}
	defer unix.Close(fd)
	return g.readEvents(fd)
}

// Between two reads of cgroup.events Await pauses at first for the shorter time, and for twice as long
// after each. The kernel limits notifications to one in 10 ms for each file, so poll(2) alone returns up to
// 10 ms too late. A notification that the kernel delays is lost if the group is removed meanwhile (seen on
// Linux 6.18), so poll(2) alone could wait for ever.
const shortestPause, longestPause = 20 * time.Microsecond, time.Second

// Await blocks until done accepts the state, or until the deadline; the zero Time means none. It returns the
// last state, and whether done accepted it. A group that was removed is as in State.
func (g *Group) Await(deadline time.Time, done func(State) bool) (State, bool, error) {
	fd, err := g.OpenFile("cgroup.events", unix.O_RDONLY)
	if err != nil {
		err = ignoreGone(err)
		return State{}, err == nil && done(State{}), err
	}
	defer unix.Close(fd)
	for pause := shortestPause; ; pause = min(2*pause, longestPause) {
		st, err := g.readEvents(fd)
		if err != nil || done(st) {
			return st, err == nil, err
		}
		next := time.Now().Add(pause)
		if !deadline.IsZero() && deadline.Before(next) {
			if next = deadline; time.Until(next) <= 0 {
				return st, false, nil
			}
		}
		// the file is marked with POLLPRI when populated or frozen changes
		if _, err := linux.PollUntil(next, unix.PollFd{Fd: int32(fd), Events: unix.POLLPRI}); err != nil {
			return st, false, fmt.Errorf("wait for cgroup.events of %q: %w", g.path, err)
		}
	}
}

func ignoreGone(err error) error {
	if gone(err) {
		return nil
	}
	return err
}

func (g *Group) readEvents(fd int) (State, error) {
	var buf [256]byte
	n, err := unix.Pread(fd, buf[:], 0)
	if gone(err) {
		return State{}, nil
	}
	if err != nil {
		return State{}, fmt.Errorf("read cgroup.events of %q: %w", g.path, err)
	}
	return parseState(buf[:n]), nil
}

// parseState takes an unknown "populated" for true: a member that does not exist costs time, and the opposite
// mistake leaves a process alive.
func parseState(b []byte) State {
	populated, ok := proc.Keyed(b, "populated")
	frozen, _ := proc.Keyed(b, "frozen")
	return State{Populated: !ok || populated != 0, Frozen: frozen != 0}
}
