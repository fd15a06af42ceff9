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

// Stuck is a member that SIGKILL did not end in time. As a rule its State is 'D', uninterruptible
// sleep, e.g. on a dead NFS server, and Wchan is where in the kernel it sleeps.
type Stuck struct {
	PID   int
	Name  string
	State byte
	Wchan string
}

// AddStuck adds those who are not among them yet.
func (r *Result) AddStuck(more []Stuck) {
	for _, s := range more {
		if !slices.ContainsFunc(r.Stuck, func(old Stuck) bool { return old.PID == s.PID }) {
			r.Stuck = append(r.Stuck, s)
		}
	}
}

// NewStuck looks at a process; ok is false if it has ended after all.
func NewStuck(pid int) (s Stuck, ok bool) {
	st, err := proc.ReadStat(pid)
	if err != nil || st.State == 'Z' && st.Threads <= 1 {
		return s, false
	}
	return Stuck{PID: pid, Name: st.Comm, State: st.State, Wchan: proc.Wchan(pid)}, true
}

// killRound is how long one round of killing may wait for populated 0 before the
// members are listed and killed again.
const killRound = 20 * time.Millisecond

// Kill kills every member of the subtree and waits until none is left. cgroup.kill
// gets all at once, whatever they fork meanwhile, but not a process
// whose first thread has exited; the SIGKILL by pidfd to each listed member gets
// that. So both are done, again and
// again until populated is 0. It returns who is still there when their number has not
// become less for that long: a slow machine gets the time that it takes.
func Kill(g Target, within time.Duration) ([]Stuck, error) {
	deadline := time.Now().Add(within)
	last := -1
	for {
		if g.Kill() == nil {
			if _, ok, _ := g.Await(time.Now().Add(killRound), -1, empty); ok {
				return nil, nil
			}
		}
		reached, signalErr := Signal(g, unix.SIGKILL)
		if last < 0 {
			last = len(reached)
		}
		_, ok, err := g.Await(time.Now().Add(killRound), -1, empty)
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

func stuck(g Target) []Stuck {
	pids, _ := g.Members() // a partial list is better than none
	var left []Stuck
	for _, pid := range pids {
		if s, ok := NewStuck(pid); ok {
			left = append(left, s)
		}
	}
	return left
}
