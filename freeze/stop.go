// SPDX-License-Identifier: Apache-2.0

//go:build linux

package freeze

import (
	"time"

	"golang.org/x/sys/unix"
)

// Forever as a grace period never ends by itself.
const Forever time.Duration = -1

// killWithin bounds the kill rung: 1,000 members take 40 ms, so whoever is left
// after this is not going to die before its sleep in the kernel ends.
const killWithin = 2 * time.Second

// Stop is the stop ladder: thaw → ask every member once → grace period → freeze →
// kill until populated 0. It ends at the rung where the group is empty. Removing
// the group is the caller's, who knows what else is in it.
type Stop struct {
	Target Target
	// Ask is the signal that every member gets once, SIGCONT after it so that a
	// stopped one can act on it. 0 asks nobody.
	Ask unix.Signal
	// Grace runs from the asking to the freeze. 0 is no grace, Forever no end.
	Grace time.Duration
	// Hurry ends the grace period early.
	Hurry *Flag
	// Frozen, if not nil, is called between freeze and kill, when no member can
	// react any more (but for one in uninterruptible sleep).
	Frozen func()
}

// Result says how far the ladder had to go.
type Result struct {
	Asked  int     // members that were asked
	Killed bool    // the kill rung was reached
	Stuck  []Stuck // members that even SIGKILL has not ended yet
}

// Run climbs the ladder. An error means that the group's state could not be read;
// everything that could be tried has been tried then.
func (s Stop) Run() (Result, error) {
	st, err := s.Target.State()
	if err != nil {
		return s.kill(Result{})
	}
	if empty(st) {
		return Result{}, nil
	}
	var res Result
	res.Asked = s.ask()
	_, done, err := s.Target.Await(s.deadline(), s.Hurry.fd(), empty)
	if done && err == nil {
		return res, nil
	}
	return s.kill(res)
}

func (s Stop) ask() int {
	if s.Ask == 0 {
		return 0
	}
	return Ask(s.Target, s.Ask)
}

// Ask sends every member a signal once, with SIGCONT after it so that a stopped one can act on it, and returns how many it
// reached.
func Ask(g Target, sig unix.Signal) int {
	_ = g.Thaw() // a frozen member could not act on the signal; it will be killed frozen
	asked, _ := Signal(g, sig, unix.SIGCONT)
	return len(asked)
}

func (s Stop) deadline() time.Time {
	if s.Grace < 0 {
		return time.Time{}
	}
	return time.Now().Add(s.Grace)
}

func (s Stop) kill(res Result) (Result, error) {
	res.Killed = true
	Freeze(s.Target) // tried always, needed never: see frozenWithin
	if s.Frozen != nil {
		s.Frozen()
	}
	var err error
	res.Stuck, err = Kill(s.Target, killWithin)
	return res, err
}
