// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"slices"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// watcher sees every call of what one `mcpscope run` comes to, in order, and lets them go on,
// but for one.
type watcher struct {
	fd, wake int
	root     int  // the launcher's pid
	tree     bool // there is a guard
	shot     *shot
	over     chan struct{} // closed when nobody is left who has the filter

	mu      sync.Mutex
	phase   string
	threads map[uint32]*process
	all     []*process
	guards  map[role]*process // the newest of each that is no fork
	counts  map[point]int     // with n 0
	last    map[uint32][]step // by thread
	visits  []visit
	fired   bool
	odd     []string // what no process of mcpscope's may do
}

// watch serves the listener until its last process has ended.
func watch(t *testing.T, listener, root int, tree bool, s *shot) *watcher {
	t.Helper()
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	w := &watcher{
		fd: listener, wake: wake, root: root, tree: tree, shot: s, over: make(chan struct{}), phase: "start",
		threads: map[uint32]*process{}, guards: map[role]*process{}, counts: map[point]int{}, last: map[uint32][]step{},
	}
	go w.serve(t)
	t.Cleanup(w.close)
	return w
}

func (w *watcher) serve(t *testing.T) {
	defer close(w.over)
	for {
		n, over, err := receive(w.fd, w.wake)
		if err != nil {
			t.Errorf("receive a system call: %v", err)
		}
		if over || err != nil {
			return
		}
		w.handle(n)
	}
}

// close ends whoever is left. Without a listener every call of theirs would fail.
func (w *watcher) close() {
	for _, p := range w.processes() {
		p.signal(unix.SIGKILL)
	}
	for _, p := range w.processes() {
		_ = p.ended() // a test that leaves one fails by other means
	}
	_, _ = unix.Write(w.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0}) // an eventfd of ours takes it
	<-w.over
	for _, p := range w.processes() {
		_ = unix.Close(p.pidfd)
	}
	_ = unix.Close(w.fd)
	_ = unix.Close(w.wake)
}

func (w *watcher) processes() []*process {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.all)
}

// enter begins another phase.
func (w *watcher) enter(phase string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.phase = phase
}

func (w *watcher) guard(r role) *process {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.guards[r]
}

func (w *watcher) handle(n notification) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p, err := w.process(n.TID)
	if err != nil || !n.waits(w.fd) { // killed meanwhile
		n.goOn(w.fd)
		return
	}
	if p.role == stranger {
		p.executed = p.executed || n.NR == unix.SYS_EXECVE
		n.goOn(w.fd)
		return
	}
	c := callOf(uint32(n.NR))
	w.suspect(n, p, c)
	if p.runtimes(n) {
		n.goOn(w.fd)
		return
	}
	at := point{role: p.role, call: c.name, about: subject(n, c)}
	w.counts[at]++
	at.n = w.counts[at]
	if w.shot == nil {
		w.visits = append(w.visits, visit{at, w.phase, w.alive(), c.errnos})
	}
	w.recognise(n, p)
	if w.hit(at) {
		if w.shot.errno != 0 {
			n.fail(w.fd, w.shot.errno)
			return
		}
		w.killAll(w.shot.kill)
	}
	p.executed = p.executed || n.NR == unix.SYS_EXECVE
	n.goOn(w.fd)
}

// hit tells whether this is the point that something happens at.
func (w *watcher) hit(at point) bool {
	if w.shot == nil || w.shot.point != at {
		return false
	}
	w.fired = true
	return true
}
