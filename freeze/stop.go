// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package freeze stops the members of a cgroup or, without cgroups, of a process tree: freeze, kill, and
// the one stop sequence.
//
// Invariant: no signal reaches a process that was not a member. The package does not decide when a group
// stops.
package freeze

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/kernel/linux"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
)

// Target is a *cgroup.Group or, without cgroups, a *Tree.
type Target interface {
	Members() ([]int, error) // the processes, in any order
	State() (cgroup.State, error)
	Freeze() error               // begins to freeze all members
	Thaw() error                 // also thaws what members have frozen
	Kill() error                 // kills all members at once, or fails if that is impossible
	CPU() (time.Duration, error) // that the members have used
}

// frozenWithin bounds the wait for frozen 1: 46 µs for one process, 4 ms for 50 busy ones. A member in
// uninterruptible sleep does not freeze.
const frozenWithin = 50 * time.Millisecond

// Freeze freezes the whole subtree, and returns false if that takes more than 50 ms.
func Freeze(g Target) bool {
	if err := g.Freeze(); err != nil {
		return false
	}
	st, _ := await(g, time.Now().Add(frozenWithin), settled) // not frozen, if it can't be read
	return st.Frozen
}

// AwaitFrozen blocks until all members are frozen, until none is left, or until the deadline. It begins no
// freeze.
func AwaitFrozen(g Target, deadline time.Time) (bool, error) {
	st, err := await(g, deadline, settled)
	return err == nil && st.Frozen, err
}

// AwaitThawed blocks until a member may run, or until the deadline.
func AwaitThawed(g Target, deadline time.Time) (bool, error) {
	st, err := await(g, deadline, thawed)
	return err == nil && thawed(st), err
}

func thawed(s cgroup.State) bool { return !s.Frozen }

func settled(s cgroup.State) bool { return s.Frozen || !s.Populated }

func empty(s cgroup.State) bool { return !s.Populated }

// AwaitEmpty blocks until no member is left, or until the deadline; the zero Time means none.
func AwaitEmpty(g Target, deadline time.Time) (bool, error) {
	st, err := await(g, deadline, empty)
	return err == nil && empty(st), err
}

// await returns the last state. It looks again and again: no event reports the end of a tree. The kernel
// limits the events of a group to one in 10 ms, and loses a delayed one if the group is removed (seen on
// Linux 6.18). The pauses depend on the time so far, and on the time that a look takes.
func await(g Target, deadline time.Time, done func(cgroup.State) bool) (cgroup.State, error) {
	for begun := time.Now(); ; {
		looked := time.Now()
		st, err := g.State()
		now := time.Now()
		if err != nil || done(st) || !deadline.IsZero() && !now.Before(deadline) {
			return st, err
		}
		pause := max(now.Sub(begun)/16, 4*now.Sub(looked), 20*time.Microsecond)
		next := now.Add(min(pause, time.Second))
		if !deadline.IsZero() && deadline.Before(next) {
			next = deadline
		}
		linux.AwaitUntil(next, -1, 0) // time.Sleep takes a millisecond at least
	}
}

// Forever as a grace period has no end.
const Forever time.Duration = -1

// killWithin is how long SIGKILL may have no effect: 1,000 members take 40 ms, so a member that is left
// after it sleeps in the kernel.
const killWithin = 2 * time.Second

// Stop is the stop sequence: thaw, signal every member once, grace period, freeze, kill until populated 0. It
// ends as soon as the group is empty. The caller removes the group.
type Stop struct {
	Target Target
	// Request is the signal that every member gets once. SIGCONT follows it, so that a stopped member can
	// react. 0 means: kill at once.
	Request unix.Signal
	// Grace is the time from Request to the freeze.
	Grace time.Duration
	// Frozen, if not nil, is called between freeze and kill, when no member runs (but in uninterruptible
	// sleep).
	Frozen func()
}

// Run performs the sequence and returns the members that SIGKILL did not end. An error means that the state
// of the group could not be read; Run has killed what it found.
func (s Stop) Run() ([]Stuck, error) {
	done, err := AwaitEmpty(s.Target, time.Now())
	if !done && err == nil && s.Request != 0 {
		Ask(s.Target, s.Request)
		var deadline time.Time
		if s.Grace >= 0 {
			deadline = time.Now().Add(s.Grace)
		}
		done, _ = AwaitEmpty(s.Target, deadline)
	}
	if done {
		return nil, nil
	}
	Freeze(s.Target) // a member that does not freeze is killed all the same
	if s.Frozen != nil {
		s.Frozen()
	}
	left, err := Kill(s.Target, killWithin)
	if tree, is := s.Target.(*Tree); is {
		tree.release()
	}
	return left, err
}

// Ask sends every member a signal once, and SIGCONT after it so that a stopped member can react, until there
// is no new one. It sends nothing to the members of except, which have got the signal already.
func Ask(g Target, sig unix.Signal, except ...int) {
	if frozen, is := g.(*cgroup.Group); is { // a frozen member would be killed without a chance to react
		_ = frozen.Thaw()
	}
	got := slices.Clone(except)
	for range askRounds {
		pids, _ := g.Members() // a partial list is better than none
		pids = slices.DeleteFunc(pids, func(pid int) bool { return slices.Contains(got, pid) })
		if len(pids) == 0 {
			return
		}
		got = append(got, pids...)
		_ = signalMembers(pids, g, sig, unix.SIGCONT) // a member that it does not reach is killed
	}
}

const askRounds = 50 // of a fork bomb

// Stuck is a member that SIGKILL did not end in time. As a rule it is in uninterruptible sleep, e.g. on a
// dead NFS server, and Text has the function of the kernel.
type Stuck struct {
	PID  int
	Text string

	maySleep bool // uninterruptibly: it does, or its state cannot be read
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
// Kill returns the members that are left when their number has not decreased for that time and one of them is
// in uninterruptible sleep, or after a minute: a slow machine gets the time that it needs. Those that no
// SIGKILL has reached for lack of descriptors or memory are not among them: then there is an error.
func Kill(g Target, within time.Duration) ([]Stuck, error) {
	busyUntil := time.Now().Add(busyWithin)
	var roundEnds time.Time // of a round without progress
	fewest := math.MaxInt   // members that were left at the end of a round
	for {
		if g.Kill() == nil {
			if ended, _ := AwaitEmpty(g, time.Now().Add(killRound)); ended {
				return nil, nil
			}
		}
		signalErr := Signal(g, unix.SIGKILL)
		ended, err := AwaitEmpty(g, time.Now().Add(killRound))
		if ended || err != nil {
			return nil, err
		}
		if time.Now().Before(roundEnds) {
			continue
		}
		left := Left(g)
		mayEnd := !slices.ContainsFunc(left, func(s Stuck) bool { return s.maySleep })
		hasProgress := len(left) < fewest || mayEnd && time.Now().Before(busyUntil)
		if !hasProgress {
			if proc.IsExhausted(signalErr) {
				left = nil
			}
			return left, signalErr
		}
		fewest = len(left)
		roundEnds = time.Now().Add(within)
	}
}

// busyWithin is how long members may take that SIGKILL has reached and that do not sleep.
const busyWithin = time.Minute

// Left describes the members that are left after a kill.
func Left(g Target) (left []Stuck) {
	pids, _ := g.Members() // a partial list is better than none
	for _, pid := range pids {
		st, err := proc.ReadStat(pid)
		if err != nil && proc.Exited(pid) || st.IsZombie() {
			continue
		}
		text := "not ended by SIGKILL yet"
		maySleep := err != nil || st.State == 'D' && !st.Exiting
		if err != nil { // with hidepid it may be another user's
			st.Comm = "hidden"
		}
		if st.State == 'D' {
			text = "sleeping uninterruptibly"
			if in := proc.Wchan(pid); in != "" {
				text += " in " + in
			}
		}
		left = append(left, Stuck{pid, fmt.Sprintf("process %d (%s), %s", pid, st.Comm, text), maySleep})
	}
	return left
}

// batch is the number of pidfds that are open at a time, at most. A group can have more members than the
// limit of descriptors, and a list of the members of a tree takes long.
func batch() int {
	var limit unix.Rlimit
	_ = unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) // it can't fail
	return int(min(max(limit.Cur, 4)/4, 2048))     // some for other members that are being signalled
}

// Signal sends the signals, in this order, to every member once. It ignores members that are forked
// meanwhile: a server may start commands to clean up.
func Signal(g Target, sigs ...unix.Signal) error {
	pids, err := g.Members()
	return errors.Join(err, signalMembers(pids, g, sigs...))
}

// signalMembers sends signals to those processes of a list that are members.
func signalMembers(pids []int, g Target, sigs ...unix.Signal) (err error) {
	slices.Sort(pids)
	for left := slices.Compact(pids); len(left) > 0; {
		done, failed := signalSome(g, left[:min(len(left), batch())], sigs)
		err = errors.Join(err, failed)
		if done == 0 {
			return errors.Join(err, fmt.Errorf("signal members (%d left): %w", len(left), unix.EMFILE))
		}
		left = left[done:]
	}
	return err
}

// signalSome is safe against reuse of pids. It opens a pidfd for each listed pid, and uses it only if the
// group lists the pid again. If the pid was reused before the open, the second list lacks it; if after, the
// pidfd refers to a dead member. It returns for how many of the first members a descriptor was free.
func signalSome(g Target, pids []int, sigs []unix.Signal) (done int, err error) {
	var fds []int
	for _, pid := range pids {
		fd, err := unix.PidfdOpen(pid, 0) // -1 for one that has exited
		if proc.IsExhausted(err) {
			break
		}
		fds = append(fds, fd)
	}
	again, err := g.Members()
	for proc.IsExhausted(err) && len(fds) > 0 { // the list takes descriptors, too
		half := len(fds) / 2
		for _, fd := range fds[half:] {
			_ = unix.Close(fd) // a pidfd has nothing to flush
		}
		fds = fds[:half]
		again, err = g.Members()
	}
	pids = pids[:len(fds)]
	slices.Sort(again)
	for i, pid := range pids {
		if _, member := slices.BinarySearch(again, pid); member {
			for _, sig := range sigs {
				// EPERM for a setuid member of another user, which cgroup.kill reaches
				_ = unix.PidfdSendSignal(fds[i], sig, nil, 0)
			}
		}
		_ = unix.Close(fds[i]) // a pidfd has nothing to flush
	}
	return len(pids), err
}
