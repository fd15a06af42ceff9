// SPDX-License-Identifier: Apache-2.0

// Package loop waits for descriptors, signals and one deadline in one system call.
package loop

import (
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/kernel/linux"
)

// Token names the descriptor of a loop that is ready.
type Token int32

const (
	TokenNone Token = iota // the deadline has passed
	TokenStdin
	TokenStdout
	TokenClient
	TokenGuard  // the guard's socket
	TokenInput  // of a frozen server
	TokenMain   // the main process of a server that the client has started
	TokenEvents // the group may be empty
	TokenSignals
	TokenAdopted // a manager has answered: reported by Report alone
	TokenMemory  // a session was out of memory: reported by ReportMemory alone
	TokenSettled // the tasks that the start has left are done
	tokens       = iota
)

// Loop waits for all that a process reacts to (descriptors, signals, a deadline) in one system call of the
// runtime's poller, so none of many loops in a process has a thread of its own. Each descriptor but that of
// the signals is reported once and has to be asked for again: a hang-up would otherwise be reported for ever.
type Loop struct {
	epoll  int
	file   *os.File // of epoll
	parked syscall.RawConn
	event  [1]unix.EpollEvent // of several that are ready the kernel reports the next one then
	caught int                // the end of a pipe that has the numbers of signals

	hub      *Hub       // or nil: then nothing of the above is used
	happened chan Token // from there
	watched  []int      // descriptors, there
	// hasMemory: TokenMemory is in happened.
	hasMemory atomic.Bool
}

// New fails where the runtime can't wait for the loop, for lack of memory. With the first loop the runtime
// makes its poller, and aborts the process where it gets no descriptors.
func New() (*Loop, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	var room [2]int // two numbers for the runtime's poller, which would abort the process without them
	if err == nil {
		err = unix.Pipe2(room[:], unix.O_CLOEXEC)
	}
	if err != nil {
		_ = unix.Close(fd) // an empty set
		return nil, fmt.Errorf("create epoll set: %w", err)
	}
	_ = unix.Close(room[0])
	_ = unix.Close(room[1])
	_ = unix.SetNonblock(fd, true) // then package os uses the poller
	l := &Loop{epoll: fd, file: os.NewFile(uintptr(fd), "epoll")}
	l.parked, _ = l.file.SyscallConn() // it is open
	if err := l.file.SetReadDeadline(time.Time{}); err != nil {
		l.Close()
		return nil, fmt.Errorf("wait by the runtime: %w", err)
	}
	return l, nil
}

// Close comes before the descriptors of a hub's loop are closed.
func (l *Loop) Close() {
	if l.hub != nil {
		l.hub.leave(l)
		return
	}
	_ = l.file.Close()
}

// Catch has TokenSignals reported whenever any of the signals has come. It is for one loop of a process.
func (l *Loop) Catch(sigs ...unix.Signal) error {
	var err error
	if l.caught, err = Catch(sigs...); err != nil {
		return err
	}
	return l.Add(l.caught, TokenSignals)
}

// Catch returns a descriptor with the numbers of signals that have come, a byte each. It is called once in a
// process. SIGHUP and SIGINT stay ignored, for the server too, if the client ignores them (nohup): of these
// alone the runtime keeps an inherited SIG_IGN.
//
// Package os/signal takes two thread switches for each signal, together 0.7 ms of a start.
func Catch(sigs ...unix.Signal) (fd int, err error) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return -1, fmt.Errorf("create pipe: %w", err)
	}
	numbers = int32(ends[1])
	a := linux.ActionOf(unix.SIGURG) // the runtime's: on a stack of its own, and with all signals blocked
	a.Handler = handlerAddress
	for _, sig := range sigs {
		if was := linux.ActionOf(sig); !was.Ignored() || sig == unix.SIGCHLD {
			a.Set(sig)
		}
	}
	return ends[0], nil
}

// numbers is the end of the pipe that handler writes to. If thousands are unread it drops a signal.
//
//lint:ignore U1000 handler reads it
var numbers int32

// handlerAddress is where the kernel calls handler.
var handlerAddress uintptr

// Signals are those that have come since it was asked last.
func (l *Loop) Signals() (sigs []unix.Signal) {
	var text [64]byte
	n, _ := unix.Read(l.caught, text[:]) // if it fails, TokenSignals is reported again
	for _, number := range text[:max(n, 0)] {
		sigs = append(sigs, unix.Signal(number))
	}
	return sigs
}

// Add waits for fd to become readable, or for a change of cgroup.events, which is always readable. A negative
// fd is passed over.
func (l *Loop) Add(fd int, t Token) error {
	switch {
	case fd < 0:
		return nil
	case l.hub != nil:
		return l.hub.add(l, fd, t)
	}
	return os.NewSyscallError("epoll_ctl", l.control(unix.EPOLL_CTL_ADD, fd, t))
}

// Forget waits for fd no more. It comes before fd is closed, unless the loop is closed before.
func (l *Loop) Forget(fd int) {
	switch {
	case fd < 0:
	case l.hub != nil:
		l.hub.forget(l, fd)
	default:
		_ = l.control(unix.EPOLL_CTL_DEL, fd, TokenNone) // it was added
	}
}

// Again waits once more for an event that was reported.
func (l *Loop) Again(fd int, t Token) {
	if l.hub != nil {
		l.hub.again(l, fd)
		return
	}
	_ = l.control(unix.EPOLL_CTL_MOD, fd, t) // it was added, or is negative
}

func (l *Loop) control(operation, fd int, t Token) error {
	event := unix.EpollEvent{Events: t.events() | unix.EPOLLONESHOT, Fd: int32(t)}
	if t == TokenSignals {
		event.Events = unix.EPOLLIN
	}
	return unix.EpollCtl(l.epoll, operation, fd, &event)
}

// events are those that a token is for.
func (t Token) events() uint32 {
	if t == TokenEvents {
		return unix.EPOLLPRI
	}
	return unix.EPOLLIN
}

// Next waits until something has happened, or the deadline has passed; the zero time means no deadline.
func (l *Loop) Next(deadline time.Time) Token {
	if l.hub != nil {
		return l.receive(deadline)
	}
	_ = l.file.SetReadDeadline(deadline) // New has tried it
	if err := l.parked.Read(l.poll); err != nil && !l.poll(0) {
		return TokenNone // an event would come before the deadline
	}
	return Token(l.event[0].Fd)
}

func (l *Loop) poll(uintptr) (happened bool) {
	n, err := unix.EpollWait(l.epoll, l.event[:], 0)
	if err != nil && err != unix.EINTR {
		panic("bug: epoll_wait on our own set: " + err.Error())
	}
	return n > 0
}
