// SPDX-License-Identifier: Apache-2.0

//go:build linux

package lifecycle

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Token tells which descriptor of a loop is ready.
type Token int32

// Loop waits for many descriptors with one thread. Each is reported once and has
// to be asked for again: a hang-up would otherwise be reported for ever.
type Loop struct {
	epoll int
	C     chan Token
	// HungUp, if not nil, is called when the other end of a descriptor is closed, in the
	// very thread that learns it.
	HungUp func(Token)
}

func NewLoop() (*Loop, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("create epoll set: %w", err)
	}
	return &Loop{epoll: fd, C: make(chan Token)}, nil
}

// Add waits for fd to become readable; a negative fd is passed over.
func (l *Loop) Add(fd int, t Token) error {
	if fd < 0 {
		return nil
	}
	if err := unix.EpollCtl(l.epoll, unix.EPOLL_CTL_ADD, fd, oneShot(t)); err != nil {
		return fmt.Errorf("wait for descriptor %d: %w", fd, err)
	}
	return nil
}

// AddChanges waits for a change of a file that the kernel tells changes of (cgroup.events and
// its kin): to be readable is nothing special there.
func (l *Loop) AddChanges(fd int, t Token) error {
	if err := unix.EpollCtl(l.epoll, unix.EPOLL_CTL_ADD, fd, change(t)); err != nil {
		return fmt.Errorf("wait for descriptor %d: %w", fd, err)
	}
	return nil
}

// ChangesAgain is again for such a file.
func (l *Loop) ChangesAgain(fd int, t Token) {
	_ = unix.EpollCtl(l.epoll, unix.EPOLL_CTL_MOD, fd, change(t)) // it was added, so it can't fail
}

func change(t Token) *unix.EpollEvent {
	return &unix.EpollEvent{Events: unix.EPOLLPRI | unix.EPOLLONESHOT, Fd: int32(t)}
}

// Again asks once more for what was reported.
func (l *Loop) Again(fd int, t Token) {
	if fd >= 0 {
		_ = unix.EpollCtl(l.epoll, unix.EPOLL_CTL_MOD, fd, oneShot(t)) // it was added, so it can't fail
	}
}

func oneShot(t Token) *unix.EpollEvent {
	return &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLONESHOT, Fd: int32(t)}
}

// Run reports to C for the rest of the process's life.
func (l *Loop) Run() {
	events := make([]unix.EpollEvent, 8)
	for {
		n, err := unix.EpollWait(l.epoll, events, -1)
		if err != nil && !errors.Is(err, unix.EINTR) {
			panic("bug: epoll_wait on our own set: " + err.Error())
		}
		for i := range max(n, 0) {
			t := Token(events[i].Fd)
			if events[i].Events&unix.EPOLLHUP != 0 && l.HungUp != nil {
				l.HungUp(t)
			}
			l.C <- t
		}
	}
}
