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

// What a Watch may be asked for. A hang-up and an error are always reported.
const (
	// hangUp: the peer of a pipe, socket or terminal closed it. A socket whose peer
	// only shut down its writing side (node's stdin.end()) counts.
	hangUp = unix.EPOLLRDHUP
	// failure: for stdout, the reader of the pipe is gone.
	failure = 0
	// input: there is something to read.
	input = unix.EPOLLIN
	// room: something can be written.
	room = unix.EPOLLOUT
)

// newWatch registers fd, as it is now, for events. It returns nil without an error for
// a file or /dev/null, where there is nothing to wait for. fd may be closed
// afterwards.
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

// FD is the epoll descriptor, -1 for nil. It polls readable once Fired is true, and
// as long as it is: whoever waits for it has to stop doing so then.
func (w *Watch) FD() int {
	if w == nil {
		return -1
	}
	return w.epoll
}

// Fired tells whether the other end is gone now. It changes nothing (the set is
// level-triggered), so several processes may share it. The hang-up of a FIFO is gone
// again when another writer opens it.
func (w *Watch) Fired() bool { return w.now() != 0 }

// Unheld tells whether nobody has the descriptor open any more that was registered: the registration
// has gone with the open file description.
func (w *Watch) Unheld() bool {
	if w == nil {
		return false
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", w.epoll))
	return err == nil && !bytes.Contains(b, []byte("tfd:"))
}

// Readable tells, for a set made with input, whether there is something to read. A
// hang-up, which is reported whether asked for or not, is nothing to read.
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

// Full reports, for a set made with Room, whether a write would wait. If no process has the descriptor any
// more there is nothing to wait for.
func (w *Watch) Full() bool { return w != nil && w.now() == 0 && !w.Unheld() }

// Close gives the set back.
func (w *Watch) Close() {
	if w != nil {
		_ = unix.Close(w.epoll) // nothing to flush
	}
}
