// SPDX-License-Identifier: Apache-2.0

//go:build linux

package freeze

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/kernel/proc"
)

// actWithin bounds one act on the whole tree, which is repeated until it has reached
// everyone: a member in uninterruptible sleep neither stops nor dies.
const actWithin = 50 * time.Millisecond

// SetFrozen stops every member, again and again until none is found that runs: who is
// stopped forks nobody, so the set no longer grows then. It is no error if that does not
// come about in 50 ms. To thaw, everyone is continued.
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

// Thaw has nothing to do: a member can stop others, but who is asked to end is
// continued anyway, and freeze nobody.
func (t *Tree) Thaw() error { return nil }

// Kill kills every member, again and again until none is found, for at most 50 ms. It
// is no error if one is left.
func (t *Tree) Kill() error {
	t.killAtHome()
	return t.until(unix.SIGKILL, func() bool {
		t.killAtHome()
		st, err := t.look()
		return err == nil && !st.Populated
	})
}

const (
	homePasses = 1000 // at most: who dies takes its time, and is a child until then
	homeQuiet  = 20   // passes that find nobody new; they take about as long as one list of a small tree
)

// killAtHome kills who comes home to a root, until nobody has come for a while. A process that
// hops, which is to fork and exit again and again, is always gone before a list of everyone has
// been made; but it comes by here each time. On a busy machine we have as little of a processor as
// each of them, so no time is lost with those who are dying already.
func (t *Tree) killAtHome() {
	killed := map[int]bool{}
	for pass, quiet := 0, 0; pass < homePasses && quiet < homeQuiet; pass++ {
		quiet++
		for _, r := range t.Roots {
			pids, _ := proc.Orphans(r.PID) // nobody, if it has ended
			for _, pid := range pids {
				if !killed[pid] {
					killed[pid], quiet = true, 0
					t.killChild(r, pid)
				}
			}
		}
	}
}

// killChild kills pid if it is a child of r: when that is seen after the pidfd was opened,
// the pidfd is that child's, or of a process that is dead.
func (t *Tree) killChild(r Root, pid int) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	st, err := proc.ReadStat(pid)
	if err == nil && st.PPID == r.PID && !t.leftOut(st) && (!t.OwnersOnly || owns(t.Owner, pid)) && r.Alive() {
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) // gone is as good
	}
}

// until signals everyone and looks whether that did it. No event tells that a process
// which is not our child has stopped, and whoever forks faster than we look must meet
// the next signal at once; so this goes on without a pause, for a bounded time.
func (t *Tree) until(sig unix.Signal, done func() bool) error {
	for deadline := time.Now().Add(actWithin); ; {
		_, err := Signal(t, sig)
		reached := done()
		if reached {
			reached = done() // who came to another parent meanwhile can be missed once
		}
		if err != nil || reached || time.Now().After(deadline) {
			return err
		}
	}
}

// CPU is what the members have used, and those that were waited for: by each other, or
// by a root.
func (t *Tree) CPU() time.Duration {
	var ticks uint64
	_ = t.each(func(m proc.Stat) { ticks += m.UTime + m.STime + m.CUTime + m.CSTime }) // a part is better than nothing
	for _, r := range t.Roots {
		if st, err := proc.ReadStat(r.PID); err == nil && r.Alive() {
			ticks += st.CUTime + st.CSTime
		}
	}
	return time.Duration(ticks) * (time.Second / ticksPerSecond)
}

// ticksPerSecond is USER_HZ, a constant of every Linux that Go runs on.
const ticksPerSecond = 100
