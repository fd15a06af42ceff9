// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package loop waits for descriptors, signals and one deadline in one system call.
package loop

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/kernel/signals"
)

// Token names the descriptor of a loop that is ready.
type Token int32

// tokens of the possible events
const (
	TokenNone Token = iota // the deadline has passed
	TokenStdin
	TokenStdout
	TokenClient
	TokenGuard   // the guard's socket
	TokenInput   // of a frozen server
	TokenMain    // the main process of a server that the client has started
	TokenEvents  // the group may be empty
	TokenSignals // or a goroutine has finished: see Wake
)

// Loop waits for all that a process reacts to (descriptors, signals, a deadline) in one system call, made by
// the goroutine that reacts. Each descriptor but that of the signals is reported once and has to be asked for
// again: a hang-up would otherwise be reported for ever.
type Loop struct {
	epoll  int
	parked syscall.RawConn // waits by the runtime's poller; nil: by a thread
	file   *os.File        // of parked
	events [8]unix.EpollEvent
	ready  []unix.EpollEvent // reported by the kernel, and not yet by Next
	caught bool              // signals are
}

func New() (*Loop, error) {
	if err := readyPoller(); err != nil {
		return nil, err
	}
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("create epoll set: %w", err)
	}
	return &Loop{epoll: fd}, nil
}

// Close gives the descriptor back.
func (l *Loop) Close() {
	if l.file != nil {
		_ = l.file.Close() // a set of descriptors
		return
	}
	_ = unix.Close(l.epoll)
}

// Park is for one of many loops in a process: from now on it waits without a thread of its own. It fails
// where the runtime can't wait for it, for lack of memory.
func (l *Loop) Park() error {
	_ = unix.SetNonblock(l.epoll, true) // then package os uses the poller
	l.file = os.NewFile(uintptr(l.epoll), "epoll")
	err := l.file.SetReadDeadline(time.Time{})
	if err == nil {
		l.parked, err = l.file.SyscallConn()
	}
	if err != nil {
		return fmt.Errorf("wait by the runtime: %w", err)
	}
	return nil
}

// Catch has TokenSignals reported whenever any of the signals is pending. SIGHUP and SIGINT stay
// ignored, for the server too, if the client ignores them (nohup): of these alone the runtime keeps an
// inherited SIG_IGN. Only the first call can fail.
func (l *Loop) Catch(sigs ...unix.Signal) error {
	if err := signals.Catch(notLeftAlone(sigs)...); err != nil || l.caught {
		return err
	}
	l.caught = true
	return l.add(signals.FD(), unix.EPOLLIN, TokenSignals)
}

// Add waits for fd to become readable; a negative fd is passed over.
func (l *Loop) Add(fd int, t Token) error {
	if fd < 0 {
		return nil
	}
	return l.add(fd, readable, t)
}

// AddChanges waits for a change of a file whose changes the kernel reports (cgroup.events and
// its kin): such a file is always readable.
func (l *Loop) AddChanges(fd int, t Token) error { return l.add(fd, changed, t) }

func (l *Loop) add(fd int, events uint32, t Token) error {
	event := &unix.EpollEvent{Events: events, Fd: int32(t)}
	if err := unix.EpollCtl(l.epoll, unix.EPOLL_CTL_ADD, fd, event); err != nil {
		return fmt.Errorf("wait for descriptor %d: %w", fd, err)
	}
	return nil
}

// Again waits once more for an event that was reported.
func (l *Loop) Again(fd int, t Token) {
	if fd >= 0 {
		l.again(fd, readable, t)
	}
}

// ChangesAgain is Again for a file that was added by AddChanges.
func (l *Loop) ChangesAgain(fd int, t Token) { l.again(fd, changed, t) }

func (l *Loop) again(fd int, events uint32, t Token) {
	event := &unix.EpollEvent{Events: events, Fd: int32(t)}
	_ = unix.EpollCtl(l.epoll, unix.EPOLL_CTL_MOD, fd, event) // it was added, so it can't fail
}

const (
	readable = unix.EPOLLIN | unix.EPOLLONESHOT
	changed  = unix.EPOLLPRI | unix.EPOLLONESHOT
)

// Next waits until something has happened, or the deadline has passed; the zero time means no deadline.
func (l *Loop) Next(deadline time.Time) Token {
	if len(l.ready) == 0 {
		l.wait(deadline)
	}
	if len(l.ready) == 0 {
		return TokenNone
	}
	t := Token(l.ready[0].Fd)
	l.ready = l.ready[1:]
	return t
}

func (l *Loop) wait(deadline time.Time) {
	runtime.Gosched() // a new goroutine runs now, not when the runtime notices that ours is blocked
	if l.parked == nil {
		l.poll(deadline)
		return
	}
	now := time.Now()
	if l.poll(now); len(l.ready) > 0 || !deadline.IsZero() && !deadline.After(now) {
		return
	}
	_ = l.file.SetReadDeadline(deadline)   // by Park the poller has it
	_ = l.parked.Read(func(uintptr) bool { // the deadline is the only error
		l.poll(now)
		return len(l.ready) > 0
	})
}

func (l *Loop) poll(deadline time.Time) {
	n, err := unix.EpollWait(l.epoll, l.events[:], until(deadline))
	for errors.Is(err, unix.EINTR) { // what has happened meanwhile comes before the deadline
		n, err = unix.EpollWait(l.epoll, l.events[:], until(deadline))
	}
	if err != nil {
		panic("bug: epoll_wait on our own set: " + err.Error())
	}
	l.ready = l.events[:max(n, 0)]
}

// until is in milliseconds, -1 for ever.
func until(deadline time.Time) int {
	if deadline.IsZero() {
		return -1
	}
	return int(min((max(time.Until(deadline), 0)+time.Millisecond-1)/time.Millisecond, math.MaxInt32))
}

// Signals are those that have come since it was asked last.
func (l *Loop) Signals() []unix.Signal { return signals.Pending() }

// notLeftAlone leaves out what the runtime has left alone.
func notLeftAlone(sigs []unix.Signal) []unix.Signal {
	return slices.DeleteFunc(slices.Clone(sigs), func(sig unix.Signal) bool {
		return (sig == unix.SIGHUP || sig == unix.SIGINT) && signals.Ignores(sig)
	})
}
