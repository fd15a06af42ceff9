// SPDX-License-Identifier: Apache-2.0

//go:build linux

package gateway

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/linux"
	"github.com/mcpscope/mcpscope/internal/notify"
	"github.com/mcpscope/mcpscope/internal/server/launcher"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/systemd"
)

// A server that its client has started has its stderr already. The kernel replaces a descriptor of a process that
// waits for the answer to a notification, and of no other. So a server gets the journal's in the moment in which its
// program begins: by then the execve has not failed, and nothing has been written. Whoever runs already when it
// turns out to be a server keeps what it has.

// redirection is the replacement of one server's descriptor 2. A nil one is for a server that is to keep it.
type redirection struct {
	of     *candidate
	pid    int
	ready  chan struct{} // closed when there is a stream, or never will be
	once   sync.Once
	stream int // the journal's, or -1

	claimed atomic.Bool   // somebody decides, or has
	decided chan struct{} // closed when the rest can be read
	kept    string        // why it was kept, or ""
	theirs  int           // a copy of what it had, or -1: to whoever reads that its end would be the server's
}

// Reasons why a server keeps its stderr.
const (
	RanBefore     = "the server ran already when it was recognized"
	neverBegan    = "its program did not begin in time"
	noListener    = "programs can't be looked at before they run here"
	noReplacement = "this kernel can't replace it (requires Linux 5.9)"
)

// beginWithin is for a program to begin that was executed.
const beginWithin = time.Second

// redirections are those of servers that are being taken.
type redirections struct {
	mu        sync.Mutex
	awaited   map[int]*redirection // by pid
	beginning map[int]bool         // pids whose program begins, and waits
}

// begins: until goesOn the process waits.
func (all *redirections) begins(pid int, c *candidate) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.beginning == nil {
		all.beginning = map[int]bool{}
	}
	all.beginning[pid] = true
	if c != nil && c.pid() == pid {
		c.begun.Store(true)
	}
}

// goesOn returns what is to be done before the process goes on, or nil.
func (all *redirections) goesOn(pid int) *redirection {
	all.mu.Lock()
	defer all.mu.Unlock()
	d := all.awaited[pid]
	delete(all.beginning, pid)
	delete(all.awaited, pid)
	return d
}

// expect is false for a process that runs.
func (all *redirections) expect(d *redirection) bool {
	all.mu.Lock()
	defer all.mu.Unlock()
	if d.of.begun.Load() && !all.beginning[d.pid] {
		return false
	}
	if all.awaited == nil {
		all.awaited = map[int]*redirection{}
	}
	all.awaited[d.pid] = d
	return true
}

func (all *redirections) forget(d *redirection) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.awaited[d.pid] == d {
		delete(all.awaited, d.pid)
	}
}

// goOn lets a program run that has begun.
func (w *watcher) goOn(r *notify.Request) { w.goOnWith(r, w.redirections.goesOn(int(r.TID))) }

// goOnWith gives it another stderr before, if d is not nil.
func (w *watcher) goOnWith(r *notify.Request, d *redirection) {
	defer w.listener.Continue(r)
	if d == nil {
		return
	}
	select {
	case <-d.ready:
	case <-time.After(moveWithin):
		d.keep(neverBegan)
	}
	if d.claimed.Swap(true) {
		return
	}
	defer close(d.decided)
	if linux.Ended(d.of.pidfd()) { // its pid may be another's
		d.kept = neverBegan
		return
	}
	d.holdTheirs()
	if err := w.listener.Replace(r, 2, d.stream); err != nil {
		d.kept = oneLine(err)
	}
}

// holdTheirs copies what the server has as stderr, unless that is its stdin or stdout as well: those end with it.
func (d *redirection) holdTheirs() {
	var err error
	if d.theirs, err = unix.PidfdGetfd(d.of.pidfd(), 2, 0); err != nil {
		return // it has none, or nobody may look at it
	}
	var own, other unix.Stat_t
	err = unix.Fstat(d.theirs, &own)
	for fd := range 2 {
		if err != nil || unix.Stat(fmt.Sprintf("/proc/%d/fd/%d", d.pid, fd), &other) == nil && own.Dev == other.Dev && own.Ino == other.Ino {
			_ = unix.Close(d.theirs) // a copy
			d.theirs = -1
			return
		}
	}
}

// redirect prepares what the settings of a server ask for that is about to be taken.
func (w *watcher) redirect(s *launcher.Server, c *candidate) *redirection {
	if s.Stderr != protocol.StderrJournal {
		return nil
	}
	d := &redirection{of: c, pid: c.pid(), ready: make(chan struct{}), decided: make(chan struct{}), stream: -1, theirs: -1}
	switch {
	case w.listener == nil:
		d.keep(noListener)
	case !w.listener.CanReplace():
		d.keep(noReplacement)
	case !w.redirections.expect(d):
		d.keep(RanBefore)
	}
	return d
}

// open makes the stream, for a server that is in its group.
func (d *redirection) open(server, id string) {
	if !d.awaited() {
		return
	}
	var err error
	if d.stream, err = systemd.JournalStream(protocol.LogIdentifier(server, id), systemd.Info); err != nil {
		d.keep(err.Error())
		return
	}
	d.once.Do(func() { close(d.ready) })
}

// awaited: it is not decided.
func (d *redirection) awaited() bool {
	if d == nil {
		return false
	}
	select {
	case <-d.decided:
		return false
	default:
		return true
	}
}

// keep gives it up, unless it is being done.
func (d *redirection) keep(why string) {
	if d == nil {
		return
	}
	if !d.claimed.Swap(true) {
		d.kept = why
		close(d.decided)
	}
	d.once.Do(func() { close(d.ready) })
}

// await waits until the program has begun, and says where its stderr goes, with a note if that is not what was
// asked for.
func (d *redirection) await() (protocol.Stderr, string) {
	if d.awaited() {
		given := make(chan struct{})
		go func() {
			linux.AwaitEnd(d.of.pidfd(), unix.POLLIN, beginWithin) // whether it has ended or is late, it is given up
			close(given)
		}()
		select {
		case <-d.decided:
		case <-given:
			d.keep(neverBegan)
			<-d.decided // unless it was being done
		}
	}
	if d.kept != "" {
		return protocol.StderrInherit, protocol.StderrKept + d.kept
	}
	return protocol.StderrJournal, ""
}

// endRedirection closes what only a server needs that has not begun.
func (w *watcher) endRedirection(d *redirection) {
	if d == nil {
		return
	}
	w.redirections.forget(d)
	closeAll(&d.stream)
}

// close is for the end of the server.
func (d *redirection) close() {
	if d != nil {
		closeAll(&d.theirs)
	}
}

func closeAll(fds ...*int) {
	for _, fd := range fds {
		if *fd >= 0 {
			_ = unix.Close(*fd) // a socket, or a copy
			*fd = -1
		}
	}
}
