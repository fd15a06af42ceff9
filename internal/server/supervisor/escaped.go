// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/linux"
	"github.com/mcpscope/mcpscope/internal/proc"
	"github.com/mcpscope/mcpscope/internal/server/lifecycle"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/server/report"
	"github.com/mcpscope/mcpscope/internal/server/sweep"
)

// reapEscaped kills the processes that have moved themselves to another cgroup. Each becomes a child of
// ours, the subreaper, when its parent dies, so this goes on until we have no child. A nested supervisor
// becomes one as well; it is asked to stop with its own group. Where a child is proves nothing, for a
// member can go anywhere: it is spared no longer than a real one takes. A member that the ladder could
// not end is not waited for.
func (s *supervisor) reapEscaped() {
	now := time.Now()
	grace := max(s.config.Policy.TermGrace, 0)
	e := escapees{
		s: s, nested: map[int]string{}, killed: map[int]bool{},
		sparedInLeaf: now.Add(protocol.LeafWithin), sparedNested: now.Add(protocol.NestedWithin + grace),
	}
	giveUp := now.Add(2*protocol.NestedWithin + grace)
	for {
		s.reap()
		if childless() || e.noneButSpared() {
			return
		}
		if time.Now().After(giveUp) {
			e.giveUp()
			return
		}
		var next lifecycle.Alarm
		if e.end() {
			next.Set(0) // a process that was killed may have left us its children
		} else {
			next.Set(e.untilNext(giveUp))
		}
		s.handle(s.loop.Next(&next)) // the launcher must not take our silence for a stop
	}
}

// childless tells whether nobody is left to wait for, and waits for nobody.
func childless() bool {
	return unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil) == unix.ECHILD
}

// escapees are the children of one reapEscaped.
type escapees struct {
	s            *supervisor
	nested       map[int]string // pid of a nested supervisor that was asked → its group's directory
	killed       map[int]bool
	sparedInLeaf time.Time // until then a process is spared that removes a group of its own
	sparedNested time.Time // until then a nested supervisor is
}

// noneButSpared tells whether all children are members in uninterruptible sleep.
func (e *escapees) noneButSpared() bool {
	if len(e.s.lifecycle.Result.Stuck) == 0 {
		return false
	}
	children, err := proc.Children(os.Getpid())
	return err == nil && len(e.others(children)) == 0
}

// others leaves out the members that the ladder could not end.
func (e *escapees) others(children []int) []int {
	if len(e.s.lifecycle.Result.Stuck) == 0 {
		return children
	}
	members, _ := e.s.group.Members().Members() // who is not known as one is waited for
	return slices.DeleteFunc(children, func(pid int) bool {
		return slices.Contains(members, pid) && slices.ContainsFunc(e.s.lifecycle.Result.Stuck, func(m freeze.Stuck) bool { return m.PID == pid })
	})
}

// untilNext is how long nothing has to be done unless something happens.
func (e *escapees) untilNext(giveUp time.Time) time.Duration {
	for _, next := range []time.Time{e.sparedInLeaf, e.sparedNested} {
		if left := time.Until(next); left > 0 {
			return left
		}
	}
	return time.Until(giveUp)
}

// end kills each child once, and asks the nested supervisors among them. Our children can't be
// replaced by strangers: only we can wait for them, and the pid is not free before.
func (e *escapees) end() (fresh bool) {
	children, err := proc.Children(os.Getpid())
	if err != nil {
		return false
	}
	for _, pid := range e.others(children) {
		if e.killed[pid] || e.spared(pid) {
			continue
		}
		e.Kill(pid)
		fresh = true
	}
	return fresh
}

// spared tells whether a child gets the time to end by itself.
func (e *escapees) spared(pid int) bool {
	dir, asked := e.nested[pid]
	if !asked {
		dir = e.s.group.Nested(pid)
	}
	switch {
	case dir == "":
		return false
	case dir == protocol.LeavingName:
		return time.Now().Before(e.sparedInLeaf)
	case !time.Now().Before(e.sparedNested):
		return false
	case !asked:
		e.nested[pid] = dir
		signalChild(pid, protocol.StopSignal, unix.SIGCONT)
	}
	return true
}

// signalChild is for a child, whose pid can't be another's.
func signalChild(pid int, sigs ...unix.Signal) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	for _, sig := range sigs {
		_ = unix.PidfdSendSignal(fd, sig, nil, 0) // gone is as good
	}
}

// Kill kills a child, and ends the group of one that was a nested supervisor.
func (e *escapees) Kill(pid int) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	e.killed[pid] = true
	if !linux.Ended(fd) {
		e.s.killed = append(e.s.killed, e.s.describe(pid))
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) // gone is as good
	}
	if dir := e.nested[pid]; dir != "" {
		linux.AwaitEnd(fd, unix.POLLIN, protocol.SupervisorGoneWithin) // it holds the lock of its group
		e.s.endNested(dir)
	}
}

// endNested ends a group whose supervisor is dead. Without groups its members come home to us.
func (s *supervisor) endNested(dir string) {
	if s.beside != nil && dir != protocol.LeavingName {
		_, _ = sweep.SweepOne(s.beside, dir, sweep.SweepNow) // what failed a later sweep tries again
	}
}

// giveUp notes the children that could not be ended.
func (e *escapees) giveUp() {
	children, err := proc.Children(os.Getpid())
	if err != nil {
		e.s.lifecycle.Result.Stuck = append(e.s.lifecycle.Result.Stuck, freeze.Stuck{Name: "unknown, for " + err.Error()})
	}
	for _, pid := range e.others(children) {
		if left, ok := freeze.NewStuck(pid); ok {
			e.s.lifecycle.Result.Stuck = append(e.s.lifecycle.Result.Stuck, left)
		}
	}
}

// tagMembers is for a server that the client has started.
func (s *supervisor) tagMembers() {
	if err := s.group.TagMembers(); err != nil {
		s.notes = append(s.notes, "who moves to another cgroup is not found: "+protocol.OneLine(err))
		s.group.Note(s.notes)
	}
}

// endTagged ends members that have left the group and are no descendants of ours: of a server that
// the client has started, or by way of another pid namespace.
func (s *supervisor) endTagged() {
	moved := s.group.Tagged()
	res, err := freeze.Stop{Target: moved, Frozen: func() {
		pids, _ := moved.Members() // for people only
		for _, pid := range pids[:min(len(pids), report.InspectFew)] {
			if !slices.ContainsFunc(s.killed, func(k report.Killed) bool { return k.PID == pid }) { // it can't be killed yet
				s.killed = append(s.killed, s.describe(pid))
			}
		}
	}}.Run()
	s.lifecycle.Result.AddStuck(res.Stuck)
	if err != nil {
		s.Note(protocol.MovedUnknown + protocol.OneLine(err))
	}
}
