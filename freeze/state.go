// SPDX-License-Identifier: Apache-2.0

//go:build linux

package freeze

import (
	"time"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
)

// State is populated while a member is found, and frozen if all are stopped. Below a root, "empty" needs a
// second read: the first can miss a member that is re-parented meanwhile.
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

// stopped: a process whose first thread has exited is shown as a zombie.
func stopped(m proc.Stat) bool { return m.Stopped() || m.State == 'Z' }

// longestPause is the longest time between two reads of /proc. No event reports that all members have
// exited.
const longestPause = 100 * time.Millisecond

// Await is as cgroup.Group.Await.
func (t *Tree) Await(deadline time.Time, done func(cgroup.State) bool) (cgroup.State, bool, error) {
	for pause := time.Millisecond; ; pause = min(2*pause, longestPause) {
		st, err := t.State()
		if err != nil || done(st) {
			return st, err == nil, err
		}
		if !deadline.IsZero() {
			if pause = min(pause, time.Until(deadline)); pause <= 0 {
				return st, false, nil
			}
		}
		time.Sleep(pause)
	}
}
