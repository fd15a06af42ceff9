// SPDX-License-Identifier: Apache-2.0

//go:build linux

package freeze

import (
	"errors"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/kernel/linux"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
)

// State is populated while a member is found, and frozen when all are stopped. Below a root it looks
// twice before it says that there is none: a member that came to another parent meanwhile can be
// missed once.
func (t *Tree) State() (cgroup.State, error) {
	st, err := t.look()
	if err == nil && !st.Populated && len(t.Roots) > 0 {
		return t.look()
	}
	return st, err
}

func (t *Tree) look() (cgroup.State, error) {
	st := cgroup.State{Frozen: true}
	err := t.each(func(m proc.Stat) {
		st.Populated = true
		st.Frozen = st.Frozen && stopped(m)
	})
	st.Frozen = st.Frozen && st.Populated
	return st, err
}

// stopped: a process whose first thread has exited shows as a zombie, stopped or not.
func stopped(m proc.Stat) bool { return m.Stopped() || m.State == 'Z' }

// Await is as cgroup.Group.Await. It wakes when a member ends: of a stop, nobody but the
// parent gets word.
func (t *Tree) Await(deadline time.Time, wake int, done func(cgroup.State) bool) (cgroup.State, bool, error) {
	for {
		st, err := t.State()
		if err != nil || done(st) {
			return st, err == nil, err
		}
		if !deadline.IsZero() && time.Now().After(deadline) {
			return st, false, nil // where members always end at once, nothing below would notice
		}
		member, err := t.anyMember()
		if err != nil {
			return st, false, err
		}
		until := deadline
		if member < 0 { // it has ended since
			until = time.Now().Add(endedPause)
		}
		fds, err := linux.PollUntil(until, unix.PollFd{Fd: int32(member), Events: unix.POLLIN}, unix.PollFd{Fd: int32(wake), Events: unix.POLLIN})
		if member >= 0 {
			_ = unix.Close(member) // a pidfd has nothing to flush
		}
		if err != nil || member >= 0 && fds[0].Revents == 0 || fds[1].Revents != 0 {
			return st, false, err
		}
	}
}

// endedPause keeps a tree whose members end all the time from taking a whole processor.
const endedPause = time.Millisecond

// anyMember opens a pidfd of one, -1 if there is none, or it has just ended: it is listed
// again after that, so it is no other process that has its pid.
func (t *Tree) anyMember() (int, error) {
	pids, err := t.Members()
	if err != nil || len(pids) == 0 {
		return -1, err
	}
	fd, err := unix.PidfdOpen(pids[0], 0)
	if errors.Is(err, unix.ESRCH) {
		return -1, nil
	}
	if err != nil {
		return -1, err
	}
	if again, err := t.Members(); err != nil || !slices.Contains(again, pids[0]) {
		_ = unix.Close(fd) // a pidfd has nothing to flush
		return -1, err
	}
	return fd, nil
}
