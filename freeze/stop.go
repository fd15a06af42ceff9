// SPDX-License-Identifier: Apache-2.0

//go:build linux

package freeze

import (
	"time"

	"golang.org/x/sys/unix"
)

// Forever as a grace period has no end.
const Forever time.Duration = -1

// killWithin is how long SIGKILL may have no effect: 1,000 members take 40 ms, so a member that is left
// after it sleeps in the kernel.
const killWithin = 2 * time.Second

// Stop is the stop sequence: thaw, signal every member once, grace period, freeze, kill until populated 0. It
// ends as soon as the group is empty. The caller removes the group.
type Stop struct {
	Target Target
	// Ask is the signal that every member gets once. SIGCONT follows it, so that a stopped member can
	// react. 0 means: kill at once.
	Ask unix.Signal
	// Grace is the time from Ask to the freeze.
	Grace time.Duration
	// Frozen, if not nil, is called between freeze and kill, when no member runs (but in uninterruptible
	// sleep).
	Frozen func()
}

// Run performs the sequence and returns the members that SIGKILL did not end. An error means that the state
// of the group could not be read; Run has killed what it found.
func (s Stop) Run() ([]Stuck, error) {
	st, err := s.Target.State()
	if err == nil && empty(st) {
		return nil, nil
	}
	if err == nil && s.Ask != 0 {
		Ask(s.Target, s.Ask)
		var deadline time.Time
		if s.Grace >= 0 {
			deadline = time.Now().Add(s.Grace)
		}
		if _, done, _ := s.Target.Await(deadline, empty); done {
			return nil, nil
		}
	}
	Freeze(s.Target) // a member that does not freeze is killed all the same
	if s.Frozen != nil {
		s.Frozen()
	}
	return Kill(s.Target, killWithin)
}

// Ask sends every member a signal once, and SIGCONT after it so that a stopped member can react.
func Ask(g Target, sig unix.Signal) {
	_ = g.Thaw()                        // a frozen member would be killed without a chance to react
	_, _ = Signal(g, sig, unix.SIGCONT) // a member that it does not reach is killed
}
