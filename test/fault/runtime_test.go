// SPDX-License-Identifier: Apache-2.0

package fault

import "golang.org/x/sys/unix"

// Some calls are the Go runtime's own, and it aborts the process when one fails: no program can
// say anything then. Guards are killed there all the same. (mcpscope has them happen before a
// server runs, and tries first whether they can.)

// runtimes recognises the runtime's word to its own poller, which comes at any time and
// concerns nobody else.
func (p *process) runtimes(n notification) bool {
	return p.event > 0 && n.Args[0] == p.event && (n.NR == unix.SYS_WRITE || n.NR == unix.SYS_READ)
}

// recognise finds the calls by which the runtime begins: the look whether descriptors 0 to 2
// are open, and the three for its poller. It is the only one to make an eventfd straight after
// an epoll set.
func (w *watcher) recognise(n notification, p *process) {
	if n.NR == unix.SYS_FCNTL && n.Args[0] <= 2 && n.Args[1] == unix.F_GETFD {
		w.spare(len(w.visits) - 1)
	}
	three := append(w.last[n.TID], step{n.NR, len(w.visits) - 1})
	if len(three) == 3 && three[0].nr == unix.SYS_EPOLL_CREATE1 && three[1].nr == unix.SYS_EVENTFD2 && n.NR == unix.SYS_EPOLL_CTL {
		p.event = n.Args[2]
		for _, s := range three {
			w.spare(s.visit)
		}
	}
	w.last[n.TID] = three[max(len(three)-2, 0):]
}

// spare takes the errors from a visit, if visits are kept.
func (w *watcher) spare(visit int) {
	if visit >= 0 {
		w.visits[visit].errnos = nil
	}
}

// step is a call of a thread, and which visit it was.
type step struct {
	nr    int32
	visit int
}
