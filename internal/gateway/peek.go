// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/gateway/mcp"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/client"
)

// peeker copies what is unread on a candidate's stdin, and takes nothing out of it. It has a copy of stdin
// open while it waits, and so a client that writes to a program that has just died may get no error for it.
// With a set of epoll(7), which would hold nothing, it would be too slow to see a message.
type peeker struct {
	stdin  int    // -1 without one that can be opened
	socket bool   // stdin is one
	copies [2]int // a pipe for tee(2), or -1
	// answer is the other end of the program's stdout, or -1. It is open for a moment only: as a reader, it
	// keeps a program from seeing that its client has closed its own.
	answer       int
	answerSocket bool
	answerUntil  time.Time
}

// answerWithin is how long a peeker looks for an answer.
const answerWithin = 50 * time.Millisecond

func newPeeker() *peeker {
	p := &peeker{stdin: -1, copies: [2]int{-1, -1}, answer: -1}
	_ = unix.Pipe2(p.copies[:], unix.O_NONBLOCK|unix.O_CLOEXEC) // without one nothing is seen on pipes
	return p
}

func (p *peeker) close() {
	closeAll(p.stdin, p.copies[0], p.copies[1])
	p.closeAnswer()
}

func (p *peeker) closeAnswer() {
	closeAll(p.answer)
	p.answer = -1
}

// reopen opens the stdin of a candidate, unless that is open already and the program still has it.
func (p *peeker) reopen(c *candidate) {
	isOpen := p.stdin >= 0
	if isOpen && fileAt(c.pid, 0) == c.stdin {
		return
	}
	closeAll(p.stdin)
	p.socket = c.stdin.Kind == unix.S_IFSOCK
	fd, err := unix.PidfdGetfd(c.pidfd, 0, 0)
	if err != nil && !p.socket { // of a pipe it needs less than the right to ptrace
		const how = unix.O_RDONLY | unix.O_NONBLOCK | unix.O_CLOEXEC
		fd, err = unix.Open(proc.DescriptorPath(c.pid, 0), how, 0)
	}
	if err == nil && fileOf(fd, "") != c.stdin { // it has another stdin by now
		closeAll(fd)
		fd = -1
	}
	p.stdin = fd
}

// peek copies what is unread on stdin. closed: nothing is, and no process can write to it any more.
func (p *peeker) peek() (text []byte, closed bool) {
	if p.stdin < 0 {
		return nil, false
	}
	return p.copyUnread(p.stdin, p.socket)
}

// peekAnswer copies what is unread on stdout, and closes that.
func (p *peeker) peekAnswer() []byte {
	defer p.closeAnswer()
	if p.answer < 0 {
		return nil
	}
	text, _ := p.copyUnread(p.answer, p.answerSocket)
	return text
}

func (p *peeker) copyUnread(fd int, socket bool) (text []byte, closed bool) {
	buf := make([]byte, mcp.LineMost)
	if socket {
		n, _, err := unix.Recvfrom(fd, buf, unix.MSG_PEEK|unix.MSG_DONTWAIT)
		return buf[:max(n, 0)], err == nil && n == 0
	}
	n, err := unix.Tee(fd, p.copies[1], len(buf), unix.SPLICE_F_NONBLOCK)
	if n <= 0 {
		return nil, err == nil
	}
	read, _ := unix.Read(p.copies[0], buf)
	return buf[:max(read, 0)], false
}

// arrival is what await has waited for.
type arrival int

const (
	nothingArrived arrival = iota
	inputArrived           // or stdin was closed; the program may have read it since
	answerArrived
	programEnded
	gatewayEnded
)

// await waits for the client's next write, for the program's answer, or for an end; until is the zero time,
// or that of the candidate's next look.
func (p *peeker) await(program, gateway int, until time.Time) arrival {
	if p.answer >= 0 && (until.IsZero() || p.answerUntil.Before(until)) {
		until = p.answerUntil
	}
	var timeout *unix.Timespec
	if !until.IsZero() {
		left := unix.NsecToTimespec(max(time.Until(until), 0).Nanoseconds())
		timeout = &left
	}
	polls := []unix.PollFd{ // a negative descriptor has no events
		{Fd: int32(p.stdin), Events: unix.POLLIN},
		{Fd: int32(p.answer), Events: unix.POLLIN},
		{Fd: int32(program), Events: unix.POLLIN},
		{Fd: int32(gateway), Events: unix.POLLIN},
	}
	n, err := unix.Ppoll(polls, timeout, nil)
	if n == 0 {
		p.closeAnswer()
	}
	switch {
	case err != nil || n == 0:
		return nothingArrived
	case polls[2].Revents != 0:
		return programEnded
	case polls[0].Revents != 0:
		return inputArrived
	case polls[1].Revents != 0:
		return answerArrived
	}
	return gatewayEnded
}

// openAnswer opens the other end of a candidate's stdout, to look for the answer to what it has just read.
func (p *peeker) openAnswer(c *candidate, gatewayPID, gateway int) {
	p.closeAnswer()
	stdout := fileAt(c.pid, 1)
	p.answerSocket = stdout.Kind == unix.S_IFSOCK
	p.answerUntil = time.Now().Add(answerWithin)
	var err error
	if p.answerSocket {
		number, found := client.FindPeer(gatewayPID, stdout.Ino)
		if !found {
			return // a process below the gateway is the client
		}
		p.answer, err = unix.PidfdGetfd(gateway, number, 0)
	} else {
		const how = unix.O_RDONLY | unix.O_NONBLOCK | unix.O_CLOEXEC
		p.answer, err = unix.Open(proc.DescriptorPath(c.pid, 1), how, 0)
	}
	if err != nil {
		p.answer = -1
	}
}
