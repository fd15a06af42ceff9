// SPDX-License-Identifier: Apache-2.0

//go:build linux

package freeze

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
)

// Stuck is a member that SIGKILL did not end in time. As a rule its State is 'D', uninterruptible sleep,
// e.g. on a dead NFS server, and Wchan is the kernel function.
type Stuck struct {
	PID   int
	Name  string
	State byte
	Wchan string
}

// AddStuck appends the members that are not in the list yet.
func AddStuck(all []Stuck, more []Stuck) []Stuck {
	for _, s := range more {
		if !slices.ContainsFunc(all, func(old Stuck) bool { return old.PID == s.PID }) {
			all = append(all, s)
		}
	}
	return all
}

// killRound is the time for populated 0, before the members are listed and killed again.
const killRound = 20 * time.Millisecond

// Kill kills every member of the subtree until none is left. cgroup.kill reaches all, also those that are
// being forked, but not a process whose first thread has exited. SIGKILL by pidfd reaches that.
//
// Kill returns the members that are left when their number has not decreased for that time, so a slow
// machine gets the time that it needs.
func Kill(g Target, within time.Duration) ([]Stuck, error) {
	deadline := time.Now().Add(within)
	last := -1
	for {
		if g.Kill() == nil {
			if _, ok, _ := g.Await(time.Now().Add(killRound), empty); ok {
				return nil, nil
			}
		}
		reached, signalErr := Signal(g, unix.SIGKILL)
		if last < 0 {
			last = len(reached)
		}
		_, ok, err := g.Await(time.Now().Add(killRound), empty)
		if ok || err != nil {
			return nil, err
		}
		if time.Now().Before(deadline) {
			continue
		}
		left := stuck(g)
		if len(left) >= last {
			return left, signalErr
		}
		last, deadline = len(left), time.Now().Add(within)
	}
}

func empty(s cgroup.State) bool { return !s.Populated }

func stuck(g Target) (left []Stuck) {
	pids, _ := g.Members() // a partial list is better than none
	for _, pid := range pids {
		if st, err := proc.ReadStat(pid); err == nil && !zombie(st) {
			left = append(left, Stuck{PID: pid, Name: st.Comm, State: st.State, Wchan: proc.Wchan(pid)})
		}
	}
	return left
}
