// SPDX-License-Identifier: Apache-2.0

//go:build linux

package gateway

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/linux"
	"github.com/mcpscope/mcpscope/internal/proc"
	"github.com/mcpscope/mcpscope/internal/server/launcher"
)

// Where there can be no filter, what is below the gateway is looked for now and then. A server that
// is slow to start is spoken to after that; what one has started before it was tagged is found only
// below it.

const pollEvery = 50 * time.Millisecond

// poll looks at new processes until the gateway ends.
func (w *watcher) poll() error {
	if err := w.listen(); err != nil {
		return err
	}
	w.ready()
	judged := map[int]uint64{} // by pid: when that process was started
	for {
		alive := map[int]uint64{}
		w.descend(w.PID, func(st proc.Stat) {
			if judged[st.PID] == st.StartTime || w.judgeRunning(st) {
				alive[st.PID] = st.StartTime
			}
		})
		judged = alive
		fds, err := linux.PollUntil(time.Now().Add(pollEvery), unix.PollFd{Fd: int32(w.Gateway), Events: unix.POLLIN})
		if err != nil || fds[0].Revents != 0 {
			w.ears.lookAtAll() // it may have spoken to one just now
			return nil         // supervisors see it as well
		}
	}
}

// descend calls fn for all below a process, but for what is in a server's group.
func (w *watcher) descend(parent int, fn func(proc.Stat)) {
	children, _ := proc.Children(parent) // nobody, if it has ended
	for _, pid := range children {
		st, err := proc.ReadStat(pid)
		if err != nil || st.PPID != parent || launcher.In(pid, w.PID) {
			continue
		}
		fn(st)
		w.descend(pid, fn)
	}
}

// judgeRunning decides about a process, unless it has executed nothing yet.
func (w *watcher) judgeRunning(st proc.Stat) bool {
	argv := arguments(st.PID)
	if len(argv) == 0 || slices.Equal(argv, arguments(st.PPID)) {
		return false // between fork and exec it is a copy of its parent
	}
	had := locksOf(st.PID)
	stdin, piped := stdioOf(st.PID)
	again, err := proc.ReadStat(st.PID)
	if err != nil || again.StartTime != st.StartTime || had.inGroup() {
		return true
	}
	w.decide(seen{
		origin: origin{pid: st.PID, direct: st.PPID == w.PID, start: st.StartTime}, stdin: stdin, had: had, outer: w.candidates.tagged(had.tag()),
		Caller: Caller{Stdio: piped, Inherited: stdin.same(w.Stdin), Argv: argv, Path: argv[0]},
	})
	return true
}
