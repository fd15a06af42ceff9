// SPDX-License-Identifier: Apache-2.0

//go:build linux

package gateway

import (
	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/proc"
	"github.com/mcpscope/mcpscope/internal/server/launcher"
)

// restore goes on with the candidates of a watcher that was killed.
func (w *watcher) restore() {
	table := w.board.all()
	known := map[tag]*candidate{}
	for i := range table {
		if e := &table[i]; e.Tag != 0 {
			known[tag(e.Tag)] = e.candidate()
		}
	}
	for i := range table {
		e := &table[i]
		c := known[tag(e.Tag)]
		if c == nil {
			continue
		}
		c.outer = known[tag(e.Outer)]
		if e.State == int32(undecided) && w.resume(c, e) {
			continue
		}
		if e.State == int32(taken) && w.takeAgain(c, e) {
			continue
		}
		if e.State == int32(undecided) {
			c.state.Store(int32(left))
		}
		w.candidates.enter(c)
		w.candidates.leave(c)
	}
}

func (e *entry) candidate() *candidate {
	c := newBareCandidate(int(e.PID), -1)
	c.tag, c.start, c.entry, c.in.Dev, c.in.Ino = tag(e.Tag), e.Start, e, e.Dev, e.Ino
	c.state.Store(e.State)
	return c
}

// resume listens to one whose process lives.
func (w *watcher) resume(c *candidate, e *entry) bool {
	stdin, ok := w.find(c, e)
	if ok {
		w.hearken(c, stdin)
	}
	return ok
}

// takeAgain is for one that has not come to its group.
func (w *watcher) takeAgain(c *candidate, e *entry) bool {
	if locksOf(int(e.PID)).tag() != c.tag || launcher.In(int(e.PID), w.PID) {
		return false
	}
	if _, ok := w.find(c, e); !ok {
		return false
	}
	w.candidates.enter(c)
	go w.capture(c, "it is spoken to in MCP")
	return true
}

func (w *watcher) find(c *candidate, e *entry) (stdin file, ok bool) {
	pidfd, err := unix.PidfdOpen(int(e.PID), 0)
	if err != nil {
		return stdin, false
	}
	st, err := proc.ReadStat(int(e.PID))
	stdin, _ = stdioOf(int(e.PID))
	if err != nil || st.StartTime != e.Start || !stdin.same(c.in.file) {
		_ = unix.Close(pidfd)
		return stdin, false
	}
	c.first.Store(&process{int(e.PID), pidfd})
	if argv := arguments(int(e.PID)); len(argv) > 0 {
		c.runs(argv, argv[0])
	}
	c.direct = st.PPID == w.PID
	c.begun.Store(true) // as far as we know
	return stdin, true
}
