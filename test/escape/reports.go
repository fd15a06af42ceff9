// SPDX-License-Identifier: Apache-2.0

package escape

import (
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// watch takes reports as they come: the socket's queue is short, and a member
// can't go on before its report is in it.
func (m *Members) watch(watched chan<- struct{}) {
	defer close(watched)
	fds := []unix.PollFd{{Fd: int32(m.sock), Events: unix.POLLIN}, {Fd: int32(m.ep), Events: unix.POLLIN}, {Fd: int32(m.end), Events: unix.POLLIN}}
	for fds[2].Revents == 0 {
		if PollFor(time.Hour, fds...) {
			m.update(m.take)
		}
	}
}

// take reads all deaths and reports. Deaths come first: a process that forks exits only after
// its child has reported, so the child is never missing once its parent has exited.
func (m *Members) take() {
	m.takeDeaths()
	for m.takeReport() {
	}
}

func (m *Members) takeDeaths() {
	var events [64]unix.EpollEvent
	for {
		n, err := unix.EpollWait(m.ep, events[:], 0)
		if err == unix.EINTR {
			continue
		}
		if n <= 0 {
			return
		}
		for _, e := range events[:n] {
			// Closing is not enough: main is a duplicate of one of them.
			_ = unix.EpollCtl(m.ep, unix.EPOLL_CTL_DEL, int(e.Fd), nil) // it is in the set
			delete(m.living, int(e.Fd))
			unix.Close(int(e.Fd))
		}
	}
}

func (m *Members) takeReport() bool {
	var text [512]byte
	var control [64]byte
	n, cn, _, _, err := unix.Recvmsg(m.sock, text[:], control[:], unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return err == unix.EINTR
	}
	kind, rest, _ := strings.Cut(string(text[:n]), " ")
	switch kind {
	case "main", "born":
		m.add(kind == "main", rest, PassedFd(control[:cn]))
	case "ready":
		m.ready = true
	case "error":
		m.errors = append(m.errors, rest)
	default:
		m.said = append(m.said, Saying{string(text[:n]), time.Now()})
	}
	return true
}

// PassedFd is the descriptor in the control data of a message, -1 for none.
func PassedFd(control []byte) int {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil || len(messages) != 1 {
		return -1
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return -1
	}
	return fds[0]
}

func (m *Members) add(first bool, text string, fd int) {
	if fd < 0 {
		m.errors = append(m.errors, "report without a pidfd: "+text)
		return
	}
	if err := unix.EpollCtl(m.ep, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}); err != nil {
		m.errors = append(m.errors, "watch pidfd: "+err.Error())
	}
	m.living[fd] = text
	m.born++
	if !first || m.main != nil {
		return
	}
	if own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0); err == nil {
		m.main = &Process{PID: pidOf(own), fd: own}
	}
	m.id = text[strings.LastIndexByte(text, ' ')+1:]
}
