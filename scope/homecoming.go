//go:build linux

package scope

import (
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/poll"
	"github.com/mcpscope/mcpscope/proc"
)

// bringHome ends what left the group: processes that moved themselves to another
// cgroup. Each comes home to us, the subreaper, when its parent dies, so it goes on
// until we have no child. A nested supervisor comes home as well; it is asked to
// stop and given the time to, with its own group. A member that the ladder could not
// end is not waited for.
func (s *supervisor) bringHome() {
	h := homecoming{s: s, nested: map[int]string{}, patience: time.Now().Add(nestedWithin + max(s.config.Policy.TermGrace, 0))}
	giveUp := time.Now().Add(2*nestedWithin + max(s.config.Policy.TermGrace, 0))
	for {
		s.reap()
		if childless() || h.stuckAlone() {
			return
		}
		if time.Now().After(giveUp) {
			h.lost()
			return
		}
		if h.end() {
			continue // whoever was killed may have left us its children
		}
		select {
		case <-s.signals: // SIGCHLD, or someone in a hurry
		case t := <-s.loop.C:
			s.happened(t) // the launcher must not take our silence for a stop
		case <-time.After(time.Until(h.patience)):
			h.patience = time.Now().Add(nestedWithin)
			h.loseNested()
		case <-time.After(time.Until(giveUp)):
		}
	}
}

// childless tells whether nobody is left to wait for, and waits for nobody.
func childless() bool {
	return unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil) == unix.ECHILD
}

// stuckAlone tells whether all children are members in uninterruptible sleep.
func (h *homecoming) stuckAlone() bool {
	if len(h.s.course.result.Stuck) == 0 {
		return false
	}
	children, err := proc.Children(os.Getpid())
	return err == nil && len(h.others(children)) == 0
}

// others leaves out the members that the ladder could not end.
func (h *homecoming) others(children []int) []int {
	if len(h.s.course.result.Stuck) == 0 {
		return children
	}
	members, _ := h.s.group.members().Members() // who is not known as one is waited for
	return slices.DeleteFunc(children, func(pid int) bool {
		return slices.Contains(members, pid) && slices.ContainsFunc(h.s.course.result.Stuck, func(m freeze.Stuck) bool { return m.PID == pid })
	})
}

// homecoming is one bringHome.
type homecoming struct {
	s        *supervisor
	nested   map[int]string // pid of a nested supervisor that was asked → its group's directory
	killed   map[int]bool
	patience time.Time
}

// end kills every child that is new, and asks the nested supervisors among them.
// Our children can't be replaced by strangers: only we can wait for them, and the
// pid is not free before.
func (h *homecoming) end() (fresh bool) {
	children, err := proc.Children(os.Getpid())
	if err != nil {
		return false
	}
	if h.killed == nil {
		h.killed = map[int]bool{}
	}
	for _, pid := range h.others(children) {
		if h.killed[pid] || h.nested[pid] != "" {
			continue
		}
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue
		}
		h.endOne(pid, fd)
		_ = unix.Close(fd) // a pidfd has nothing to flush
		fresh = true
	}
	return fresh
}

func (h *homecoming) endOne(pid, pidfd int) {
	dir := h.s.group.nested(pid)
	if dir != "" {
		h.nested[pid] = dir
	}
	if dir == leavingName {
		return // it removes a nested group, and ends by itself
	}
	if dir != "" {
		_ = unix.PidfdSendSignal(pidfd, unix.SIGTERM, nil, 0) // gone is as good
		_ = unix.PidfdSendSignal(pidfd, unix.SIGCONT, nil, 0)
		return
	}
	h.killed[pid] = true
	if !poll.Ended(pidfd) {
		h.s.killed = append(h.s.killed, h.s.observe(pid))
		_ = unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0) // gone is as good
	}
}

// loseNested ends nested supervisors that had their time, and their groups.
func (h *homecoming) loseNested() {
	for pid, dir := range h.nested {
		if fd, err := unix.PidfdOpen(pid, 0); err == nil {
			_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) // gone is as good
			awaitEnd(fd, unix.POLLIN, supervisorGoneWithin)    // it held the lock of its group
			_ = unix.Close(fd)
		}
		delete(h.nested, pid)
		h.killed[pid] = true
		h.s.group.endNested(dir)
	}
}

// lost notes who could not be ended.
func (h *homecoming) lost() {
	children, err := proc.Children(os.Getpid())
	if err != nil {
		h.s.course.result.Stuck = append(h.s.course.result.Stuck, freeze.Stuck{Name: "unknown, for " + err.Error()})
	}
	for _, pid := range h.others(children) {
		if st, err := proc.ReadStat(pid); err == nil && st.State != 'Z' {
			h.s.course.result.Stuck = append(h.s.course.result.Stuck, freeze.Stuck{PID: pid, Name: st.Comm, Wchan: proc.Wchan(pid)})
		}
	}
}
