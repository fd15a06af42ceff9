// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/gateway/mcp"
	"github.com/mcpscope/mcpscope/internal/kernel/linux"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
)

// peeker copies what is unread on a candidate's stdin, and takes nothing out of it. It has a copy of stdin
// open while it waits, and so a client that writes to a program that has just died, or has just closed its
// stdin, may get no error for it.
// With a set of epoll(7), which would hold nothing, it would be too slow to see a message.
type peeker struct {
	tap *tap // of stdin, or nil without one that can be opened
	// answer is the other end of the program's stdout, or -1. It is open for a moment only: as a reader, it
	// keeps a program from seeing that its client has closed its own.
	answer       int
	answerSocket bool
	answerUntil  time.Time
	answerPipe   [2]int // for tee(2), or -1
	peer         peer
	stdinLook    time.Time // the next look whether the program still has its stdin
	stdinPause   time.Duration
}

// answerWithin is how long a peeker looks for an answer.
const answerWithin = 50 * time.Millisecond

func newPeeker() *peeker {
	p := &peeker{answer: -1, answerPipe: [2]int{-1, -1}}
	p.peer.client = -1
	return p
}

func (p *peeker) close() {
	p.closeTap()
	p.closeAnswer()
	p.peer.close()
}

func (p *peeker) closeTap() {
	if p.tap != nil {
		p.tap.close()
		p.tap = nil
	}
}

func (p *peeker) closeAnswer() {
	closeAll(p.answer, p.answerPipe[0], p.answerPipe[1])
	p.answer = -1
	p.answerPipe = [2]int{-1, -1}
}

// reopen opens the stdin of a candidate, unless that is open already and the program still has it. It is
// false if there are too few descriptors.
func (p *peeker) reopen(of *program) bool {
	if p.tap != nil && fileAt(of.pid, 0) == of.stdin {
		return true
	}
	p.closeTap()
	if of.stdin.Kind == unix.S_IFIFO && !of.stdin.isPipe() {
		return true // while a named FIFO is open here, its writers do not wait for the program
	}
	fd := of.openStdinToWait()
	if fd < 0 {
		return true
	}
	st, _ := proc.ReadStat(of.pid) // no writer is known, if it has ended
	t, err := openTap(fd, of.stdin.isSocket(), st.PPID)
	if err != nil {
		closeAll(fd)
		return false
	}
	p.tap = t
	return true
}

// A program can close its stdin, and no event reports that. Its client sees it when the copy here is closed,
// too: so the watcher looks again and again, soon at first.
const (
	firstStdinPause = 20 * time.Millisecond
	lastStdinPause  = time.Second
)

// nextLook returns the time of the next check of stdin. One that is not open here may be another file for a
// moment only: a shell reads a file before it executes the server.
func (p *peeker) nextLook() time.Time {
	if now := time.Now(); !now.Before(p.stdinLook) {
		p.stdinPause = min(max(2*p.stdinPause, firstStdinPause), lastStdinPause)
		p.stdinLook = now.Add(p.stdinPause)
	}
	return p.stdinLook
}

// peekAnswer copies what is unread on stdout, and closes that.
func (p *peeker) peekAnswer() []byte {
	defer p.closeAnswer()
	if p.answer < 0 {
		return nil
	}
	return copyNow(p.answer, p.answerSocket, p.answerPipe)
}

// copyNow copies what is unread on a socket or a pipe. It does not wait: pipe is non-blocking.
func copyNow(fd int, socket bool, pipe [2]int) []byte {
	if socket {
		buf := make([]byte, mcp.LineMost)
		n, _ := peekSocket(fd, buf, unix.MSG_DONTWAIT) // 0 after an error
		return buf[:n]
	}
	n, _ := unix.Tee(fd, pipe[1], mcp.LineMost, unix.SPLICE_F_NONBLOCK)
	if n <= 0 {
		return nil
	}
	buf := make([]byte, n) // not before: the other reader is as fast
	read, _ := unix.Read(pipe[0], buf)
	return buf[:max(read, 0)]
}

// arrival is the event that ended awaitArrival.
type arrival int

const (
	nothingArrived arrival = iota
	inputArrived           // or stdin was closed
	inputMissed            // the program has read it
	answerArrived
	programEnded
	gatewayEnded
)

// awaitArrival waits for the client's next write, for the program's answer, or for an exit; until is the
// zero time, or that of the candidate's next look.
func (p *peeker) awaitArrival(programPIDFD, gatewayPIDFD int, until time.Time) arrival {
	until = earlier(until, p.nextLook())
	if p.answer >= 0 {
		until = earlier(until, p.answerUntil)
	}
	var timeout *unix.Timespec
	if !until.IsZero() {
		left := unix.NsecToTimespec(max(time.Until(until), 0).Nanoseconds())
		timeout = &left
	}
	stdin := -1
	arrived := -1
	if p.tap != nil {
		p.tap.requestCopy()
		arrived = p.tap.arrived
		if p.answer < 0 {
			stdin = p.tap.fd
		}
	}
	for {
		reports := []arrival{inputArrived, programEnded, answerArrived, gatewayEnded}
		polls := []unix.PollFd{ // in the order of these; a negative descriptor has no events
			{Fd: int32(arrived), Events: unix.POLLIN},
			{Fd: int32(programPIDFD), Events: unix.POLLIN},
			{Fd: int32(p.answer), Events: unix.POLLIN},
			{Fd: int32(gatewayPIDFD), Events: unix.POLLIN},
			{Fd: int32(stdin), Events: unix.POLLIN},
		}
		n, err := unix.Ppoll(polls, timeout, nil)
		if n == 0 && !time.Now().Before(p.answerUntil) {
			p.closeAnswer()
		}
		if err != nil || n == 0 {
			return nothingArrived
		}
		for i, report := range reports {
			if polls[i].Revents != 0 {
				return report
			}
		}
		if !linux.AwaitWithin(stdin, unix.POLLIN, 0) {
			return inputMissed
		}
		stdin = -1 // it is unread, and so there will be a copy
	}
}

// earlier returns the earlier of two times. The zero time is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// openAnswer opens the other end of a candidate's stdout, to look for the answer to the input that it has
// just read.
func (p *peeker) openAnswer(of *program, gateway int) {
	p.closeAnswer()
	stdout := fileAt(of.pid, 1)
	p.answerSocket = stdout.isSocket()
	p.answerUntil = time.Now().Add(answerWithin)
	if p.answerSocket {
		p.answer = p.peer.open(of.pid, gateway, stdout)
		return
	}
	_ = unix.Pipe2(p.answerPipe[:], unix.O_NONBLOCK|unix.O_CLOEXEC) // without one no answer is seen
	const how = unix.O_RDONLY | unix.O_NONBLOCK | unix.O_CLOEXEC
	fd, err := unix.Open(proc.DescriptorPath(of.pid, 1), how, 0)
	if err == nil {
		p.answer = fd
	}
}
