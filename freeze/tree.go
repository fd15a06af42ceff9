// SPDX-License-Identifier: Apache-2.0

//go:build linux

package freeze

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/kernel/linux"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
)

// Root is a process whose descendants are in the tree while it lives. It is not in the tree itself.
type Root struct {
	PID   int
	PIDFD int // -1 for the calling process
}

// Tree is the set of processes below its root, and of those that carry its tag.
type Tree struct {
	Root *Root // nil for none
	// Tag adds the processes that carry it and that a process of the user Owner may signal. For another user
	// than ours this applies to descendants as well: we may be root, and signal more processes.
	Tag   Tag
	Owner int
	// Spare, if not nil, selects processes to leave out, with all their descendants below a root. Where it
	// lacks descriptors or memory to know, it leaves a process out and fails: the list is incomplete then.
	Spare func(proc.Stat) (bool, error)

	halted map[int]uint64 // start times, by pid, of processes that Freeze has stopped
}

// Members lists the processes in the tree, without zombies. It can miss one that was just forked or
// re-parented.
func (t *Tree) Members() ([]int, error) {
	var all []int
	err := t.each(func(st proc.Stat) { all = append(all, st.PID) })
	return all, err
}

func (t *Tree) each(fn func(proc.Stat)) error {
	if t.RootAlone() { // the tag is not searched for here, but at the end of a stop
		return nil
	}
	found, err := t.below()
	seen := map[int]bool{} // a member that has the tag and descends from the root is one
	for _, st := range found {
		seen[st.PID] = true
		fn(st)
	}
	tagged, tagErr := t.Tag.carriers(t.Owner)
	for _, st := range tagged {
		if seen[st.PID] {
			continue
		}
		isLeftOut, failed := t.leftOut(st)
		err = errors.Join(err, failed)
		if !isLeftOut {
			fn(st)
		}
	}
	return errors.Join(err, tagErr)
}

// RootAlone reports whether the root lives and has no children. A root is a subreaper, so its descendants
// are found by their parents, except in a foreign pid namespace. A search by tag reads all processes, so it
// is left to the end of a stop.
func (t *Tree) RootAlone() bool {
	if t.Root == nil {
		return false
	}
	children, err := proc.Children(t.Root.PID)
	return err == nil && len(children) == 0 && t.Root.Alive()
}

// Alive reports whether the root can have descendants.
func (r Root) Alive() bool { return !linux.Ended(r.PIDFD) }

// below lists the descendants of the root, parents first.
func (t *Tree) below() (found []proc.Stat, err error) {
	if t.Root == nil {
		return nil, nil
	}
	for todo := []int{t.Root.PID}; len(todo) > 0; todo = todo[1:] {
		children, failed := proc.Children(todo[0])
		if failed != nil && !proc.Exited(todo[0]) {
			err = errors.Join(err, failed)
		}
		for _, child := range children {
			st, failed := proc.ReadStat(child)
			if proc.IsExhausted(failed) {
				err = errors.Join(err, failed)
			}
			if failed != nil {
				continue
			}
			isLeftOut, failed := t.leftOut(st)
			err = errors.Join(err, failed)
			if isLeftOut {
				continue
			}
			if !st.IsZombie() && t.mayHave(child) {
				found = append(found, st)
			}
			todo = append(todo, child)
		}
	}
	if !t.Root.Alive() {
		return nil, nil // its pid may be another's by now, and so what was found below it
	}
	return found, err
}

func (t *Tree) mayHave(pid int) bool {
	if t.Owner == os.Getuid() {
		return true
	}
	owned, _ := owns(t.Owner, pid) // false, if it can't be read
	return owned
}

func (t *Tree) leftOut(st proc.Stat) (bool, error) {
	if t.Root != nil && t.Root.PID == st.PID {
		return true, nil
	}
	if t.Spare == nil {
		return false, nil
	}
	return t.Spare(st)
}

// State is populated while a member is found, and frozen if all are stopped. Below a root, "empty" needs a
// second read: the first can miss a member that is re-parented meanwhile.
func (t *Tree) State() (cgroup.State, error) {
	st, err := t.look()
	if err == nil && !st.Populated && t.Root != nil {
		return t.look()
	}
	return st, err
}

func (t *Tree) look() (cgroup.State, error) {
	st := cgroup.State{Frozen: true}
	err := t.each(func(m proc.Stat) {
		st.Populated = true
		// a process whose first thread has exited is shown as a zombie
		st.Frozen = st.Frozen && (m.Stopped() || m.State == 'Z')
	})
	st.Frozen = st.Frozen && st.Populated
	return st, err
}

// actWithin bounds one act on the whole tree, which repeats until it has reached all members. A member in
// uninterruptible sleep neither stops nor exits.
const actWithin = 50 * time.Millisecond

// Freeze sends SIGSTOP until no member runs. A stopped member does not fork, so the set no longer grows
// then. It gives up after 50 ms, without an error.
func (t *Tree) Freeze() error { return t.until(unix.SIGSTOP, settled) }

// noteRunning remembers the members that Freeze is about to stop.
func (t *Tree) noteRunning() {
	if t.halted == nil {
		t.halted = map[int]uint64{}
	}
	_ = t.each(func(m proc.Stat) { // what is not listed is not stopped either
		if !m.Stopped() {
			t.halted[m.PID] = m.StartTime
		}
	})
}

// release continues what Freeze has stopped and Kill has not killed. After the death of the root its
// descendants are no members any more: the next guard may be among them.
func (t *Tree) release() {
	for pid, start := range t.halted {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue // it was killed
		}
		st, err := proc.ReadStat(pid)
		if err == nil && st.StartTime == start && st.Stopped() {
			_ = unix.PidfdSendSignal(fd, unix.SIGCONT, nil, 0) // it has exited
		}
		_ = unix.Close(fd) // a pidfd has nothing to flush
	}
}

// Thaw continues every member.
func (t *Tree) Thaw() error { return Signal(t, unix.SIGCONT) }

// ThawStopped thaws what was frozen to the end. Members of a tree that run get no SIGCONT, which they could
// catch. Thaw continues those that are about to stop, too.
func ThawStopped(g Target) error {
	tree, isTree := g.(*Tree)
	if !isTree {
		return g.Thaw()
	}
	var stopped []int
	err := tree.each(func(m proc.Stat) {
		if m.Stopped() {
			stopped = append(stopped, m.PID)
		}
	})
	return errors.Join(err, signalMembers(stopped, tree, unix.SIGCONT))
}

// Kill kills every member until none is found, for 50 ms at most.
func (t *Tree) Kill() error { return t.until(unix.SIGKILL, empty) }

const (
	orphanPasses = 1000
	orphanQuiet  = 20 // passes without a new orphan, about as long as one list of a small tree
)

// killOrphans kills the orphans of the root until no new one appears for some time. A process that forks
// and exits again and again does not exist any more when all processes have been listed. But each time it
// is re-parented to the root. On a busy machine we get no more of a processor than each of these, so no pass
// waits for a process that is exiting.
func (t *Tree) killOrphans() {
	if t.Root == nil {
		return
	}
	killed := map[int]bool{}
	quiet := 0
	for pass := 0; pass < orphanPasses && quiet < orphanQuiet; pass++ {
		quiet++
		pids, _ := proc.Orphans(t.Root.PID) // none, if it has exited
		for _, pid := range pids {
			if !killed[pid] {
				killed[pid] = true
				quiet = 0
				t.killChild(pid)
			}
		}
	}
}

// killChild kills pid if it is a child of the root. The parent is read after the pidfd was opened, so the
// pidfd refers to that child or to a dead process.
func (t *Tree) killChild(pid int) {
	fd, _ := unix.PidfdOpen(pid, 0) // -1, if it has exited
	defer unix.Close(fd)
	st, err := proc.ReadStat(pid)
	if err != nil || st.PPID != t.Root.PID {
		return
	}
	isLeftOut, _ := t.leftOut(st) // the list of the members has the error
	if !isLeftOut && t.mayHave(pid) && t.Root.Alive() {
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) // it has exited
	}
}

// until repeats a signal to all members without a pause, for a bounded time. No event reports that a
// process which is not our child has stopped. A member that forks faster than we list must get the next
// signal at once.
func (t *Tree) until(sig unix.Signal, done func(cgroup.State) bool) error {
	for deadline := time.Now().Add(actWithin); ; {
		if sig == unix.SIGSTOP {
			t.noteRunning()
		}
		err := Signal(t, sig)
		reached := true
		for looks := 0; reached && looks < 2; looks++ { // a list can miss a member that is re-parented
			if sig == unix.SIGKILL {
				t.killOrphans()
			}
			st, lookErr := t.look()
			reached = lookErr == nil && done(st)
		}
		if err != nil || reached || time.Now().After(deadline) {
			return err
		}
	}
}

// CPU is the time that the members have used, and their reaped children, and those of the root.
func (t *Tree) CPU() (time.Duration, error) {
	var ticks uint64
	err := t.each(func(m proc.Stat) { ticks += m.Ticks + m.ChildTicks })
	if t.Root != nil {
		if st, err := proc.ReadStat(t.Root.PID); err == nil && t.Root.Alive() {
			ticks += st.ChildTicks
		}
	}
	return time.Duration(ticks) * (time.Second / 100), err // USER_HZ
}
