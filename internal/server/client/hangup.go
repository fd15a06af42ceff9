// SPDX-License-Identifier: Apache-2.0

//go:build linux

package client

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Watch is an epoll set with one descriptor registered in it.
type Watch struct{ epoll int }

// Events of a Watch, beside hang-up and error.
const (
	// hangUp: the peer of a pipe, socket or terminal closed it, or shut down its writing side (node's
	// stdin.end()).
	hangUp = unix.EPOLLRDHUP
	// failure: stdout has no reader.
	failure = 0
	// input: there is something to read.
	input = unix.EPOLLIN
	// room: something can be written.
	room = unix.EPOLLOUT
)

// newWatch registers the open file of fd, which may be closed afterwards. It returns nil without an error
// for a file or /dev/null, which have no events.
func newWatch(fd int, events uint32) (*Watch, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("create epoll set: %w", err)
	}
	err = unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: events})
	if err == nil {
		return &Watch{epoll: epoll}, nil
	}
	_ = unix.Close(epoll) // an empty set
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EBADF) {
		return nil, nil
	}
	return nil, fmt.Errorf("watch descriptor %d: %w", fd, err)
}

// WatchFromFD takes over an inherited set; -1 gives nil.
func WatchFromFD(epoll int) *Watch {
	if epoll < 0 {
		return nil
	}
	return &Watch{epoll: epoll}
}

// FD is the epoll descriptor, -1 for nil. It polls readable while Fired is true.
func (w *Watch) FD() int {
	if w == nil {
		return -1
	}
	return w.epoll
}

// Fired reports whether the other end is closed now. The set is level-triggered, so several processes can
// share it. Another writer that opens a FIFO undoes a hang-up.
func (w *Watch) Fired() bool { return w.now() != 0 }

// Unheld reports whether no process has the registered descriptor: the kernel removes the registration with
// the open file.
func (w *Watch) Unheld() bool {
	if w == nil {
		return false
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", w.epoll))
	return err == nil && !bytes.Contains(b, []byte("tfd:"))
}

// Readable reports whether there is input; a hang-up does not count.
func (w *Watch) Readable() bool { return w.now()&unix.EPOLLIN != 0 }

func (w *Watch) now() uint32 {
	if w == nil {
		return 0
	}
	var ev [1]unix.EpollEvent
	for {
		n, err := unix.EpollWait(w.epoll, ev[:], 0)
		if !errors.Is(err, unix.EINTR) {
			if n <= 0 {
				return 0
			}
			return ev[0].Events
		}
	}
}

// Full reports whether a write would block. Without the descriptor in any process nothing blocks.
func (w *Watch) Full() bool { return w != nil && w.now() == 0 && !w.Unheld() }

func (w *Watch) Close() {
	if w != nil {
		_ = unix.Close(w.epoll) // nothing to flush
	}
}
