// SPDX-License-Identifier: Apache-2.0

//go:build linux

package gateway

import (
	"errors"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/launcher"
)

// endSlack is for all of a server's end but its term grace.
const endSlack = 5 * time.Second

// follow stops a server when it has to end. It kills members that are left because its guard or a later
// brain was killed, or stopped when the gateway ended.
func (w *watcher) follow(t *launcher.Taken, grace time.Duration) {
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		t.Live()
		awaitPolled(t.FD())
	}()
	select {
	case <-gone:
	case <-w.ended:
		t.Wake()
		var patience <-chan time.Time
		if grace >= 0 {
			patience = time.After(grace + endSlack)
		}
		select {
		case <-gone:
		case <-patience:
			t.Kill()
			<-gone
		}
	}
	t.Over()
}

// awaitPolled waits until poll(2) has something to say of a descriptor, by the runtime's poller: without a
// thread of its own. It returns for no other reason: a server is ended then.
func awaitPolled(fd int) {
	for {
		copied, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
		if err == nil {
			_ = unix.SetNonblock(copied, true) // what package os takes to its poller
			f := os.NewFile(uintptr(copied), "polled")
			var conn syscall.RawConn
			if conn, err = f.SyscallConn(); err == nil {
				err = conn.Read(polled)
			}
			_ = f.Close() // a copy
		}
		if err == nil {
			return
		}
		time.Sleep(time.Second) // for lack of memory: the kernel has no other reason
	}
}

func polled(fd uintptr) bool {
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		if !errors.Is(err, unix.EINTR) {
			return n > 0
		}
	}
}
