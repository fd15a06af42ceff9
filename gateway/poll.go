//go:build linux

package gateway

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/poll"
	"github.com/mcpscope/mcpscope/proc"
	"github.com/mcpscope/mcpscope/scope"
)

// Where there can be no filter the gateway's children are looked for now and then. What a
// server has started by then is moved too, but who has left its tree before is not found.

const (
	pollEvery = 50 * time.Millisecond
	moveTries = 16 // bounds the race with members that fork
)

// poll looks at new children until the gateway ends.
func (w *watcher) poll() {
	w.ready()
	judged := map[int]uint64{} // by pid: when that process was started
	for {
		children, _ := proc.Children(w.PID) // nobody, at its end
		alive := map[int]uint64{}
		for _, pid := range children {
			st, err := proc.ReadStat(pid)
			if err != nil {
				continue
			}
			if judged[pid] == st.StartTime || w.judge(st) {
				alive[pid] = st.StartTime
			}
		}
		judged = alive
		fds, err := poll.Until(time.Now().Add(pollEvery), unix.PollFd{Fd: int32(w.Gateway), Events: unix.POLLIN})
		if err != nil || fds[0].Revents != 0 {
			return // supervisors see it as well
		}
	}
}

// judge decides about a child, unless it has executed nothing yet.
func (w *watcher) judge(st proc.Stat) bool {
	argv := arguments(st.PID)
	if len(argv) == 0 || slices.Equal(argv, arguments(w.PID)) {
		return false // between fork and exec it is a copy of the gateway
	}
	pidfd, err := unix.PidfdOpen(st.PID, 0)
	if err != nil {
		return false
	}
	defer unix.Close(pidfd)
	if again, err := proc.ReadStat(st.PID); err != nil || again.StartTime != st.StartTime || scope.In(st.PID, w.PID) {
		return true
	}
	c := Caller{Direct: true, Stdio: conveyed(st.PID, 0) && conveyed(st.PID, 1), Leader: st.Session == st.PID, Argv: argv, Path: argv[0]}
	verdict, why := w.Rules.Decide(c)
	if verdict != Taken {
		w.explain(st.PID, "left", argv, why)
		return true
	}
	t, err := w.server(w.Rules.name(argv)).Take(scope.Child{PID: st.PID, PIDFD: pidfd, ClientPIDFD: w.Gateway})
	if err != nil {
		w.explain(st.PID, "left", argv, "it can't be contained: "+err.Error())
		return true
	}
	w.takeTree(t, st.PID)
	if t = w.guide(t, st.PID, argv, why); t != nil {
		w.followed.Go(func() { w.follow(t) })
	}
	return true
}

// takeTree moves who is below a process, until nobody new is found.
func (w *watcher) takeTree(t *scope.Taken, root int) {
	for range moveTries {
		fresh := false
		for below := []int{root}; len(below) > 0; below = below[1:] {
			children, _ := proc.Children(below[0]) // nobody, if it has ended
			for _, pid := range children {
				if st, err := proc.ReadStat(pid); err != nil || st.PPID != below[0] || scope.In(pid, w.PID) {
					continue // a pid is a number, and may be another's by now
				}
				fresh = t.TakeAlso(pid) == nil || fresh
			}
			below = append(below, children...)
		}
		if !fresh {
			return
		}
	}
}
