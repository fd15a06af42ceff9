// SPDX-License-Identifier: Apache-2.0

//go:build linux

package gateway

import (
	"errors"
	"io"
	"os"
	"os/signal"
	"path"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/mcp"
	"github.com/mcpscope/mcpscope/internal/notify"
	"github.com/mcpscope/mcpscope/internal/proc"
)

// executable is our own, whatever has become of its file.
const executable = "/proc/self/exe"

// watcher looks at what the gateway executes.
type watcher struct {
	*config
	env      []string
	listener *notify.Listener
	holder
	candidates *candidates
	ears       *ears
	board      *board
	over       chan struct{} // closed when no process is left that has the filter
	ended      chan struct{} // closed when the gateway has ended
	followed   sync.WaitGroup
	resting    atomic.Bool // the gateway has ended: nobody becomes a server any more
	standby    lifeline
	configure  func(name string, s Servers) Servers
}

// Watch is the whole life of a watcher or its standby. memory is the descriptor of its
// configuration, foreign are those above 2 that it was started with. configure says how a server of
// that name is run, from what the gateway was told.
func Watch(memory int, foreign []int, configure func(name string, s Servers) Servers) int {
	c, err := readConfig(memory)
	if err != nil {
		return 125 // the stage sees EOF
	}
	w := &watcher{config: c, over: make(chan struct{}), ended: make(chan struct{}), configure: configure}
	if w.env, err = proc.Environ(); err != nil {
		return 125
	}
	w.closeClientDescriptors(foreign, memory)
	// Caught, not ignored: that would be inherited by supervisors. Our end is that of all that
	// has the filter.
	signal.Notify(make(chan os.Signal, 1), unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2, unix.SIGWINCH)
	switch {
	case c.Rest:
		return w.stay()
	case c.Lifeline >= 0:
		if !w.standBy() {
			return 0
		}
	case !w.settle():
		return 125
	case w.Listener < 0:
		if w.poll() != nil {
			return 125 // the stage sees EOF
		}
		w.awaitFollowers()
		return 0
	}
	if err := w.watch(); err != nil {
		return 125 // the standby goes on
	}
	return 0
}

// closeClientDescriptors closes everything that is the gateway's.
func (w *watcher) closeClientDescriptors(foreign []int, memory int) {
	ours := append(w.descriptors(), memory)
	for _, fd := range foreign {
		if !slices.Contains(ours, fd) {
			_ = unix.Close(fd) // it was a copy
		}
	}
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(null)
	for fd := range 3 {
		_ = unix.Dup3(null, fd, 0) // without it the gateway's reader sees no end of it
	}
}

// settle goes out of the gateway's way, and gets the listener.
func (w *watcher) settle() bool {
	_, err := w.server("").MoveOut()
	if err != nil {
		_, _ = unix.Write(w.Control, []byte("failed "+err.Error()[:min(len(err.Error()), 4000)])) // or the stage is gone
		return false
	}
	_, _ = unix.Write(w.Control, []byte("ok "+strconv.Itoa(os.Getpid()))) // as above
	if w.Listener, err = receive(w.Control); err != nil {
		return false // the stage is gone
	}
	if w.Memory, err = notify.NewMemory(); err == nil {
		w.Board, err = newBoard()
	}
	return err == nil
}

// receive waits for the stage to go on; -1 is no listener.
func receive(control int) (listener int, err error) {
	oob := make([]byte, unix.CmsgSpace(4))
	for {
		n, size, _, _, err := unix.Recvmsg(control, make([]byte, 64), oob, unix.MSG_CMSG_CLOEXEC)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return -1, err
		case n == 0:
			return -1, io.EOF
		case size == 0:
			return -1, nil
		}
		messages, err := unix.ParseSocketControlMessage(oob[:size])
		if err != nil || len(messages) == 0 {
			return -1, unix.EBADMSG
		}
		fds, err := unix.ParseUnixRights(&messages[0])
		if err != nil || len(fds) == 0 {
			return -1, unix.EBADMSG
		}
		return fds[0], nil
	}
}

// ready has the stage execute the gateway.
func (w *watcher) ready() {
	if w.Control >= 0 {
		_, _ = unix.Write(w.Control, []byte("ok")) // or the stage is gone
		_ = unix.Close(w.Control)
		w.Control = -1
	}
}

// watch answers until nobody is left to ask.
func (w *watcher) watch() error {
	var left []*notify.Request
	var err error
	if w.listener, left, err = notify.Open(w.Listener, w.Memory); err != nil {
		return err
	}
	if err := w.post(); err != nil {
		return err
	}
	if err := w.listen(); err != nil {
		return err
	}
	w.ready()
	go w.awaitGateway()
	go func() {
		w.listener.Over()
		close(w.over)
	}()
	failed := make(chan error, 1)
	go func() {
		if err := answerAll(w.listener, left, w.answer); err != nil {
			failed <- err
		}
	}()
	idle := make(chan struct{})
	go w.awaitIdle(idle)
	select {
	case <-w.over:
		w.awaitFollowers()
		return nil
	case <-idle:
		return w.rest()
	case err := <-failed:
		return err
	}
}

// listen begins to listen to candidates.
func (w *watcher) listen() error {
	var err error
	if w.ears, err = newEars(); err != nil {
		return err
	}
	if w.board, err = openBoard(w.Board, Status{Version: 1, Name: w.Name, PID: w.PID, Started: time.Now().UTC()}); err != nil {
		return err
	}
	if w.Listener < 0 {
		w.board.weaker("programs can't be looked at before they run (no seccomp listener): a server that is spoken to at once is missed unless it is configured or matches")
	}
	w.candidates = newCandidates(w.board)
	w.ears.decided, w.ears.ended, w.ears.missed, w.ears.worth = w.judged, w.gone, w.missed, w.worth
	go w.ears.listen()
	w.restore()
	w.awaitServers()
	return nil
}

// judged is called by the ears, whose thread has no time.
func (w *watcher) judged(c *candidate, v mcp.Verdict, why string) {
	to := left
	if v == mcp.Server {
		to = taken
	}
	if to == taken && w.resting.Load() || !c.decide(to) {
		return
	}
	if to == taken {
		w.spun.reset(c.key())
		if p := c.ran.Load(); p != nil && !p.slow { // whose first argument says little
			w.programs.serves(*p)
		}
		w.serves(c.argv())
		w.followed.Go(func() { w.capture(c, why) })
	} else {
		go w.leave(c, why)
	}
}

// serves is for a command line that has turned out to be a server's, and for what else was started by it.
func (w *watcher) serves(argv []string) {
	for _, ended := range w.served.add(argv) {
		w.followed.Go(func() { w.endCarriers(ended) })
	}
	if len(argv) < 2 {
		return
	}
	for _, other := range w.candidates.undecided(argv) {
		if other.decide(taken) {
			w.ears.forget(other)
			w.followed.Go(func() { w.capture(other, servedBefore) })
		}
	}
}

// missed is for a candidate that reads as soon as it is written to. Its name decides.
func (w *watcher) missed(c *candidate) {
	verdict, why := byName(c.caller())
	if verdict == Taken && c.decide(taken) {
		w.ears.forget(c)
		go w.capture(c, why)
	}
}

// gone is for a candidate whose process has ended.
func (w *watcher) gone(c *candidate) {
	w.candidates.leave(c)
	if c.passOn() {
		if w.ears.again(c) == nil {
			w.candidates.enter(c)
			return
		}
	}
	if !c.heard && len(c.argv()) > 1 && w.served.has(c.argv()) && !w.resting.Load() && c.decide(taken) {
		w.ears.forget(c)
		w.followed.Go(func() { w.capture(c, servedBefore) })
		return
	}
	if c.decide(left) {
		w.ears.forget(c)
		if !c.heard && len(c.argv()) > 1 {
			w.served.endedUnseen(c)
		}
		why := "it has ended, and nothing was written to it"
		switch {
		case c.heard:
			why = "it has ended, and was not spoken to in MCP"
		case c.spins > 0:
			why = "it has ended, and what was written to it could not be looked at in time; --config or --match would take it"
		}
		go w.leave(c, why)
	}
}

// curious: a program without pipes may still be a server, or is to be explained. Most are not, and are to
// cost little.
func (w *watcher) curious(r *notify.Request) bool {
	if len(w.Rules.Match) > 0 || w.Rules.listening() || w.Explain >= 0 {
		return true
	}
	base := path.Base(pathOf(r))
	return namesMCP(base) || isInterpreter(base)
}

// answer lets go on at once whoever can't be a server.
func (w *watcher) answer(r *notify.Request) {
	if w.resting.Load() {
		w.listener.Continue(r)
		return
	}
	if r.Begins() {
		w.begins(r)
		return
	}
	stdin, piped := stdioOf(int(r.TID)) // threads have the same
	if !piped && !w.curious(r) {
		w.listener.Continue(r)
		return
	}
	o, err := originOf(r, w.PID)
	if err != nil || o.pid == w.PID || !piped && !o.direct && len(w.Rules.Match) == 0 && !w.Rules.listening() {
		w.listener.Continue(r)
		return
	}
	go w.consider(r, o, stdin, piped)
}
