// SPDX-License-Identifier: Apache-2.0

//go:build linux

package gateway

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/kernel/linux"
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
	w.posting.Lock()
	defer w.posting.Unlock()
	c := *w.config
	c.Control, c.Lifeline = -1, fds[1]
	err = c.start(executable, w.env)
	_ = unix.Close(fds[1]) // the standby has it
	if err != nil {
		_ = unix.Close(fds[0])
		return err
	}
	w.standby = fds[0]
	go func() {
		defer unix.Close(fds[0]) // until then rest may pass it on
		awaitHangUp(fds[0])
		if !w.listener.Over() {
			_ = w.post() // without one we go on as well
		}
	}()
	return nil
}

// standBy waits until the watcher is gone, and returns whether there is anything left to watch.
func (w *watcher) standBy() bool {
	fds := []unix.PollFd{{Fd: int32(w.Lifeline)}, {Fd: int32(w.Listener)}}
	for {
		if _, err := unix.Poll(fds, -1); !errors.Is(err, unix.EINTR) {
			_ = unix.Close(w.Lifeline)
			w.Lifeline = -1
			return err == nil && fds[1].Revents == 0
		}
	}
}

// awaitHangUp waits until the other end of a socket is closed, without a thread of its own where there is a
// descriptor for that. It returns for no other reason: a server is ended then.
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
