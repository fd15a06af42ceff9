// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Hub waits for the descriptors of many loops, in one thread. A loop of its own for each of a gateway's
// servers would take a descriptor, and the kernel allows 500 epoll sets that each have the same pidfd and are
// in a set themselves (reverse_path_check in fs/eventpoll.c).
type Hub struct {
	epoll int
	wake  int // an eventfd: polled has changed

	mu     sync.Mutex
	next   uint64              // the id of the next watched
	byID   map[uint64]*watched // an event that was read may be of one that is not there any more
	byFD   map[int]*watched    // each is in the epoll set once
	polled map[int]*watched    // epoll refuses these (EINVAL, see above): they are polled one by one
}

// watched is a descriptor, and the loops that wait for it.
type watched struct {
	id      uint64
	fd      int
	events  uint32
	waiting []waiter
}

// waiter is armed until its event.
type waiter struct {
	loop  *Loop
	token Token
	armed bool
}

// NewHub starts the thread, which never ends.
func NewHub() (*Hub, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("create epoll set: %w", err)
	}
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		_ = unix.Close(epoll) // an empty set
		return nil, fmt.Errorf("create eventfd: %w", err)
	}
	h := &Hub{
		epoll: epoll, wake: wake,
		byID: map[uint64]*watched{}, byFD: map[int]*watched{}, polled: map[int]*watched{},
	}
	go h.run()
	return h, nil
}

// Loop is one of the hub's. It takes no descriptor.
func (h *Hub) Loop() *Loop {
	// each token is reported once until Again, so there is always room for one more
	return &Loop{hub: h, epoll: -1, caught: -1, happened: make(chan Token, tokens)}
}

// Report has Next return a token without an event.
func (l *Loop) Report(t Token) { l.happened <- t }

// ReportMemory has Next return TokenMemory, once for several reports that it has not returned yet.
func (l *Loop) ReportMemory() {
	if l.hasMemory.CompareAndSwap(false, true) {
		l.Report(TokenMemory)
	}
}

// receive returns the next token, or TokenNone after the deadline.
func (l *Loop) receive(deadline time.Time) Token {
	t := l.receiveAny(deadline)
	if t == TokenMemory {
		l.hasMemory.Store(false)
	}
	return t
}

func (l *Loop) receiveAny(deadline time.Time) Token {
	select {
	case t := <-l.happened: // before a deadline that has passed
		return t
	default:
	}
	var due <-chan time.Time
	if !deadline.IsZero() {
		timer := time.NewTimer(time.Until(deadline))
		defer timer.Stop()
		due = timer.C
	}
	select {
	case t := <-l.happened:
		return t
	case <-due:
		return TokenNone
	}
}

func (h *Hub) add(l *Loop, fd int, t Token) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	w := h.byFD[fd]
	if w == nil {
		h.next++
		w = &watched{id: h.next, fd: fd, events: t.events()}
		if err := h.insert(w); err != nil {
			return err
		}
	}
	w.waiting = append(w.waiting, waiter{l, t, true})
	l.watched = append(l.watched, fd)
	h.arm(w)
	return nil
}

func (h *Hub) insert(w *watched) error {
	err := h.control(unix.EPOLL_CTL_ADD, w)
	if err != nil && err != unix.EINVAL { // too many paths to a file in an epoll set
		return fmt.Errorf("epoll_ctl: %w", err)
	}
	if err != nil {
		h.polled[w.fd] = w
	}
	h.byID[w.id] = w
	h.byFD[w.fd] = w
	return nil
}

func (h *Hub) again(l *Loop, fd int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	w := h.byFD[fd]
	if w == nil {
		return // it is negative
	}
	for i := range w.waiting {
		if w.waiting[i].loop == l {
			w.waiting[i].armed = true
		}
	}
	h.arm(w)
}

// leave forgets a loop. Its descriptors are removed by number: those that another process has, too, would
// stay in the set when they are closed.
func (h *Hub) leave(l *Loop) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, fd := range l.watched {
		h.remove(l, fd)
	}
	l.watched = nil
}

// forget has a loop wait for one descriptor no more.
func (h *Hub) forget(l *Loop, fd int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.remove(l, fd)
	l.watched = slices.DeleteFunc(l.watched, func(one int) bool { return one == fd })
}

func (h *Hub) remove(l *Loop, fd int) {
	w := h.byFD[fd]
	if w == nil {
		return // it was in the list twice
	}
	w.waiting = slices.DeleteFunc(w.waiting, func(one waiter) bool { return one.loop == l })
	if len(w.waiting) > 0 {
		return
	}
	delete(h.byID, w.id)
	delete(h.byFD, w.fd)
	if h.polled[w.fd] == w {
		delete(h.polled, w.fd)
		h.interrupt()
	} else {
		_ = h.control(unix.EPOLL_CTL_DEL, w) // it was added
	}
}

// arm has the next event of w reported.
func (h *Hub) arm(w *watched) {
	if h.polled[w.fd] == w {
		h.interrupt()
		return
	}
	_ = h.control(unix.EPOLL_CTL_MOD, w) // it was added
}

func (h *Hub) control(operation int, w *watched) error {
	event := unix.EpollEvent{
		Events: w.events | unix.EPOLLONESHOT, Fd: int32(uint32(w.id)), Pad: int32(w.id >> 32),
	}
	return unix.EpollCtl(h.epoll, operation, w.fd, &event)
}

func (h *Hub) interrupt() {
	_, _ = unix.Write(h.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0}) // if it is full, it is readable
}

// run is the thread.
func (h *Hub) run() {
	var events [64]unix.EpollEvent
	for {
		h.await()
		n, _ := unix.EpollWait(h.epoll, events[:], 0) // -1 when interrupted
		for _, e := range events[:max(n, 0)] {
			h.happened(uint64(uint32(e.Fd)) | uint64(uint32(e.Pad))<<32)
		}
	}
}

// await returns when there is something in the epoll set, after the events of those that are not.
func (h *Hub) await() {
	fds := []unix.PollFd{{Fd: int32(h.epoll), Events: unix.POLLIN}, {Fd: int32(h.wake), Events: unix.POLLIN}}
	ids := []uint64{0, 0}
	h.mu.Lock()
	for _, w := range h.polled {
		if slices.ContainsFunc(w.waiting, func(one waiter) bool { return one.armed }) {
			fds = append(fds, unix.PollFd{Fd: int32(w.fd), Events: int16(w.events)})
			ids = append(ids, w.id)
		}
	}
	h.mu.Unlock()
	_, err := unix.Ppoll(fds, nil, nil)
	if errors.Is(err, unix.EINVAL) {
		// ppoll(2): there are more than RLIMIT_NOFILE, which a member has lowered. The guard starts another
		// watcher, which has the guard's limit.
		os.Exit(1)
	}
	if err != nil {
		return // it was interrupted
	}
	var count [8]byte
	_, _ = unix.Read(h.wake, count[:]) // nothing, unless it was woken
	for i, fd := range fds[2:] {
		if fd.Revents != 0 {
			h.happened(ids[i+2])
		}
	}
}

func (h *Hub) happened(id uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	w := h.byID[id]
	if w == nil {
		return // it was removed meanwhile
	}
	for i := range w.waiting {
		one := &w.waiting[i]
		if one.armed {
			one.armed = false
			one.loop.happened <- one.token
		}
	}
}
