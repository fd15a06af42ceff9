// SPDX-License-Identifier: Apache-2.0

//go:build linux

package freeze

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/kernel/proc"
)

// actWithin bounds one act on the whole tree, which repeats until it has reached all members. A member in
// uninterruptible sleep neither stops nor exits.
const actWithin = 50 * time.Millisecond

// SetFrozen sends SIGSTOP until no member runs. A stopped member does not fork, so the set no longer grows
// then. It gives up after 50 ms, without an error.
func (t *Tree) SetFrozen(frozen bool) error {
	if !frozen {
		_, err := Signal(t, unix.SIGCONT)
		return err
	}
	return t.until(unix.SIGSTOP, func() bool {
		st, err := t.look()
		return err == nil && (st.Frozen || !st.Populated)
	})
}

// Thaw does nothing: Ask sends SIGCONT, and members of a tree have no cgroups to freeze.
func (t *Tree) Thaw() error { return nil }

// Kill kills every member until none is found, for 50 ms at most.
func (t *Tree) Kill() error {
	t.killAtHome()
	return t.until(unix.SIGKILL, func() bool {
		t.killAtHome()
		st, err := t.look()
		return err == nil && !st.Populated
	})
}

const (
	homePasses = 1000
	homeQuiet  = 20 // passes without a new orphan, about as long as one list of a small tree
)

// killAtHome kills the orphans of the roots until no new one appears for some time. A process that forks
// and exits again and again does not exist any more when all processes have been listed. But each time it
// is re-parented to a root. On a busy machine we get no more of a processor than each of these, so no pass
// waits for a process that is exiting.
func (t *Tree) killAtHome() {
	killed := map[int]bool{}
	for pass, quiet := 0, 0; pass < homePasses && quiet < homeQuiet; pass++ {
		quiet++
		for _, r := range t.Roots {
			pids, _ := proc.Orphans(r.PID) // none, if it has exited
			for _, pid := range pids {
				if !killed[pid] {
					killed[pid], quiet = true, 0
					t.killChild(r, pid)
				}
			}
		}
	}
}

// killChild kills pid if it is a child of r. The parent is read after the pidfd was opened, so the pidfd
// refers to that child or to a dead process.
func (t *Tree) killChild(r Root, pid int) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	st, err := proc.ReadStat(pid)
	if err != nil || st.PPID != r.PID || t.leftOut(st) || t.OwnersOnly && !owns(t.Owner, pid) {
		return
	}
	if r.Alive() {
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) // it has exited
	}
}

// until repeats a signal to all members without a pause, for a bounded time. No event reports that a
// process which is not our child has stopped. A member that forks faster than we list must get the next
// signal at once.
func (t *Tree) until(sig unix.Signal, done func() bool) error {
	for deadline := time.Now().Add(actWithin); ; {
		_, err := Signal(t, sig)
		reached := done()
		if reached {
			reached = done() // a list can miss a member that is re-parented
		}
		if err != nil || reached || time.Now().After(deadline) {
			return err
		}
	}
}

// CPU is the time that the members have used, and their reaped children, and those of the roots.
func (t *Tree) CPU() time.Duration {
	var ticks uint64
	_ = t.each(func(m proc.Stat) { ticks += m.UTime + m.STime + m.CUTime + m.CSTime }) // a partial sum
	for _, r := range t.Roots {
		if st, err := proc.ReadStat(r.PID); err == nil && r.Alive() {
			ticks += st.CUTime + st.CSTime
		}
	}
	return time.Duration(ticks) * (time.Second / ticksPerSecond)
}

// ticksPerSecond is USER_HZ.
const ticksPerSecond = 100
