// SPDX-License-Identifier: Apache-2.0

//go:build linux

package gateway

import (
	"errors"
	"io"
	"os"
	"os/signal"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/gateway/notify"
	"github.com/mcpscope/mcpscope/internal/kernel/linux"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/launcher"
)

// executable is our own, whatever has become of its file.
const executable = "/proc/self/exe"

// Server is what a gateway's child becomes.
type Server = launcher.Server

// Configure makes a server of that name from a gateway's settings.
type Configure func(settings []byte, name string) *Server

// watcher looks at what the gateway executes.
type watcher struct {
	*config
	env        []string
	listener   *notify.Listener
	candidates *candidates
	ended      chan struct{} // closed when the gateway has ended
	followed   sync.WaitGroup
	resting    atomic.Bool // the gateway has ended: nothing becomes a server any more
	posting    sync.Mutex
	standby    int // our end of its lifeline
	configure  Configure
}

// Watch is the whole life of a watcher or its standby. memory is the descriptor of its configuration, foreign
// are those above 2 that it was started with.
func Watch(memory int, foreign []int, configure Configure) int {
	c, err := readConfig(memory)
	if err != nil {
		return 125 // the stage sees EOF
	}
	w := &watcher{config: c, ended: make(chan struct{}), configure: configure}
	if w.env, err = proc.Environ(); err != nil {
		return 125
	}
	w.closeClientDescriptors(foreign, memory)
	// Caught, not ignored: that would be inherited by brains. Our end is that of all that has the
	// filter.
	signal.Notify(make(chan os.Signal, 1),
		unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2, unix.SIGWINCH)
	switch {
	case c.Rest:
		err = w.stay()
	case c.Lifeline >= 0:
		if w.standBy() {
			err = w.watch()
		}
	case w.settle():
		err = w.watch()
	default:
		return 125
	}
	if err != nil {
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
	if _, err := w.server("").MoveOut(); err != nil {
		why := "failed " + err.Error()
		_, _ = unix.Write(w.Control, []byte(why[:min(len(why), 4000)])) // or the stage is gone
		return false
	}
	word := ok
	if !notify.MayRead(w.PID) {
		w.Blind, word = true, okBlind
	}
	_, _ = unix.Write(w.Control, []byte(word)) // as above
	var err error
	if w.Listener, err = receive(w.Control); err == nil {
		w.Memory, err = notify.NewMemory()
	}
	return err == nil
}

// receive waits for the stage's listener.
func receive(control int) (listener int, err error) {
	oob := make([]byte, unix.CmsgSpace(4))
	for {
		_, size, _, _, err := unix.Recvmsg(control, make([]byte, 64), oob, unix.MSG_CMSG_CLOEXEC)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		messages, err := unix.ParseSocketControlMessage(oob[:max(size, 0)])
		if err != nil || len(messages) == 0 {
			return -1, io.EOF // the stage is gone
		}
		fds, err := unix.ParseUnixRights(&messages[0])
		if err != nil || len(fds) == 0 {
			return -1, unix.EBADMSG
		}
		return fds[0], nil
	}
}

// watch answers until no process is left that has the filter, or only one that no server needs.
func (w *watcher) watch() error {
	var left []*notify.Request
	var err error
	if w.listener, left, err = notify.Open(w.Listener, w.Memory); err != nil {
		return err
	}
	if w.candidates, err = newCandidates(); err != nil {
		return err
	}
	if err := w.post(); err != nil {
		return err
	}
	if w.Control >= 0 { // the stage executes the gateway
		_, _ = unix.Write(w.Control, []byte(ok)) // or it is gone
		_ = unix.Close(w.Control)
		w.Control = -1
	}
	answered, idle := make(chan error, 1), make(chan struct{})
	go func() { answered <- answerAll(w.listener, left, w.answer) }()
	go func() {
		w.awaitGateway()
		w.followed.Wait()
		close(idle)
	}()
	select {
	case err := <-answered:
		if err == nil {
			w.awaitFollowers()
		}
		return err
	case <-idle:
		return w.rest()
	}
}

// awaitGateway returns when the gateway has ended.
func (w *watcher) awaitGateway() {
	end := unix.PollFd{Fd: int32(w.Gateway), Events: unix.POLLIN}
	if _, err := linux.PollUntil(time.Time{}, end); err == nil {
		w.resting.Store(true)
		close(w.ended)
	}
}

// answer lets go on at once what can't be a server.
func (w *watcher) answer(r *notify.Request) {
	stdin := fileAt(int(r.TID), 0) // threads have the same
	piped := stdin.piped() && fileAt(int(r.TID), 1).piped()
	if w.resting.Load() || !piped && len(w.Match) == 0 && !w.listening() {
		w.listener.Continue(r)
		return
	}
	go w.consider(r, stdin, piped)
}

// What a tool has left running keeps the filter for ever, and each program that it executes fails when nobody
// answers. So when the gateway and its servers are gone one process stays for as long as any of that lives,
// and does nothing but let it go on.

// rest becomes that process, with the same standby. It returns only if it can't.
func (w *watcher) rest() error {
	w.posting.Lock() // for ever: a second standby would see its end now, and go on beside us
	c := config{
		Name: w.Name, Rest: true, Lifeline: w.standby, Listener: w.Listener, Memory: w.Memory,
		Gateway: -1, Control: -1, Explain: -1, Runner: -1,
	}
	memory, err := c.write()
	if err != nil {
		return err
	}
	for _, fd := range append(c.descriptors(), memory) {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0); err != nil {
			return err
		}
	}
	env := []string{"GOMAXPROCS=1", "GOGC=off"} // it allocates next to nothing
	return syscall.Exec(executable, c.line(memory), env)
}

// stay is the whole life of that process.
func (w *watcher) stay() error {
	l, left, err := notify.Open(w.Listener, w.Memory)
	if err != nil {
		return err
	}
	return answerAll(l, left, l.Continue)
}

// answerAll answers what another watcher has left, and what comes until no process is left that has the
// filter.
func answerAll(l *notify.Listener, left []*notify.Request, answer func(*notify.Request)) error {
	for _, r := range left {
		answer(r)
	}
	for {
		r, err := l.Receive()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		answer(r)
	}
}
