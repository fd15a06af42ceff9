// SPDX-License-Identifier: Apache-2.0

//go:build linux

package groups

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
)

// Stubborn is a payload without a cgroup, which only a kill ends. Its waits are in the time of a bubble of
// testing/synctest, which the kernel's polls are not.
type Stubborn struct {
	Worked func() time.Duration // what CPU says; nil for nothing
	Frozen bool
	Killed time.Time
}

func (s *Stubborn) CPU() time.Duration {
	if s.Worked == nil {
		return 0
	}
	return s.Worked()
}

func (s *Stubborn) Members() ([]int, error) { return nil, nil }

func (s *Stubborn) State() (cgroup.State, error) {
	return cgroup.State{Populated: s.Killed.IsZero(), Frozen: s.Frozen}, nil
}

func (s *Stubborn) Await(deadline time.Time, wake int, done func(cgroup.State) bool) (cgroup.State, bool, error) {
	for {
		st, _ := s.State()
		if done(st) {
			return st, true, nil
		}
		woken, _ := unix.Poll([]unix.PollFd{{Fd: int32(wake), Events: unix.POLLIN}}, 0)
		if woken > 0 || !deadline.IsZero() && time.Until(deadline) <= 0 {
			return st, false, nil
		}
		time.Sleep(time.Millisecond)
	}
}

func (s *Stubborn) SetFrozen(frozen bool) error { s.Frozen = frozen; return nil }
func (s *Stubborn) Thaw() error                 { return nil }

func (s *Stubborn) Kill() error {
	if s.Killed.IsZero() {
		s.Killed = time.Now()
	}
	return nil
}
