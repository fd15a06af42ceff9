// SPDX-License-Identifier: Apache-2.0

//go:build linux

package gateway

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/linux"
)

// A watcher that is killed must not take the gateway with it: without a listener each execve
// fails with ENOSYS. So a second process has the listener too, and is the watcher as soon as
// the first one is gone, with a standby of its own.

// post starts the standby, now and whenever that is gone.
func (w *watcher) post() error {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("create lifeline: %w", err)
	}
	c := *w.config
	c.Control, c.Lifeline = -1, fds[1]
	err = c.start(executable, w.env)
	_ = unix.Close(fds[1]) // the standby has it
	if err != nil {
		_ = unix.Close(fds[0])
		return err
	}
	w.standby.set(fds[0])
	go func() {
		awaitHangUp(fds[0])
		w.standby.close(fds[0])
		select {
		case <-w.over:
		default:
			if !w.standby.dismissed.Load() {
				_ = w.post() // without one we go on as well
			}
		}
	}()
	return nil
}

// lifeline is the watcher's end of what its standby waits on.
type lifeline struct {
	mu        sync.Mutex
	fd        int
	open      bool
	dismissed atomic.Bool
}

func (l *lifeline) set(fd int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fd, l.open = fd, true
}

func (l *lifeline) close(fd int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fd == fd {
		l.open = false
	}
	_ = unix.Close(fd)
}

// dismiss sends the standby away, and waits until it has gone.
func (w *watcher) dismiss() {
	l := &w.standby
	l.dismissed.Store(true)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open {
		_ = unix.Sendmsg(l.fd, []byte("over"), nil, nil, unix.MSG_NOSIGNAL) // or it has gone
		_, _ = linux.PollUntil(time.Now().Add(dismissWithin), unix.PollFd{Fd: int32(l.fd)})
	}
}

// dismissWithin bounds the wait for a standby that was stopped: when it is continued it takes over, and
// then there are two that answer.
const dismissWithin = time.Second

// standBy waits until the watcher is gone, and returns whether there is anything left to watch.
func (w *watcher) standBy() bool {
	fds := []unix.PollFd{{Fd: int32(w.Lifeline), Events: unix.POLLIN}, {Fd: int32(w.Listener)}}
	for {
		_, err := unix.Poll(fds, -1)
		switch {
		case err != nil && !errors.Is(err, unix.EINTR), fds[1].Revents != 0:
			return false
		case fds[0].Revents&unix.POLLIN != 0 && w.dismissed():
			return false
		case fds[0].Revents != 0:
			_ = unix.Close(w.Lifeline)
			w.Lifeline = -1
			return true
		}
	}
}

// dismissed: the watcher needs no standby any more. The end of the lifeline is readable, too.
func (w *watcher) dismissed() bool {
	n, err := unix.Read(w.Lifeline, make([]byte, 16))
	return err == nil && n > 0
}

// awaitHangUp waits until the other end of a socket is closed, without a thread of its own where there is a descriptor
// for that. It returns for no other reason: a server is ended then.
func awaitHangUp(fd int) {
	if awaitPolled(fd) {
		return
	}
	for {
		if _, err := linux.PollUntil(time.Time{}, unix.PollFd{Fd: int32(fd)}); err == nil {
			return
		}
		time.Sleep(time.Second) // for lack of memory: the kernel has no other reason
	}
}

// awaitPolled is false where package os can't wait for it.
func awaitPolled(fd int) bool {
	copied, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return false
	}
	_ = unix.SetNonblock(copied, true) // what package os takes to its poller; it is a socket, so it can't fail
	f := os.NewFile(uintptr(copied), "socket")
	defer f.Close()
	conn, err := f.SyscallConn()
	if err != nil {
		return false
	}
	err = conn.Read(func(fd uintptr) bool {
		for {
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd)}}, 0)
			if !errors.Is(err, unix.EINTR) {
				return n > 0 // what was said is no reason
			}
		}
	})
	return err == nil
}
