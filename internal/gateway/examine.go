// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/gateway/mcp"
)

// examiner decides about candidates by their input.
//
// A program that is neither configured nor named may still be a server: then its client writes MCP to its
// stdin. That lies there until the program has started, which takes most servers longer than a client to
// speak. A server that runs already is woken by the same write as the watcher, and may be faster. Then the
// watcher looks for the answer, which the client is as slow to read.
type examiner struct {
	candidates *candidates
	groups     *groups
	servers    *servers
	reporter   *reporter
	following  *sync.WaitGroup
	attended   atomic.Int64 // candidates with threads
}

const (
	lookEvery = 10 * time.Millisecond
	looks     = 1000 // a filter or a language server has its input read no longer
)

const (
	wroteMCP = "its client writes MCP: "
	answers  = "it answers its client in MCP: "
)

// startAttending starts to read the input of a program, unless the user may have too few threads. It closes
// the program's pidfd at the end. The program waits in its execve meanwhile: on a busy machine a short
// session is over before a thread that was only asked to start has its first look.
func (x *examiner) startAttending(p program) {
	isReserved := x.reserveThreads()
	if !isReserved {
		closeAll(p.pidfd)
		x.reporter.reportUnseen("the user may have too few processes (ulimit -u)")
		return
	}
	c := &candidate{program: p}
	x.candidates.enter(c)
	input := newPeeker()
	input.reopen(&c.program) // attend reports a failure
	c.expectClient()
	go x.attend(c, input)
}

// attend reads the input of a candidate until it is decided. It has a thread of its own: to be woken by the
// runtime's poller takes longer than a server takes to read a message.
func (x *examiner) attend(c *candidate, p *peeker) {
	defer x.attended.Add(-1)
	defer x.candidates.remove(c)
	runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
	defer p.close()
	for count := 0; count < looks && !c.decided(); {
		if !p.reopen(&c.program) {
			x.reporter.reportUnseen("too many open files (ulimit -n)")
		}
		arrived := p.awaitArrival(c.program.pidfd, c.program.client.pidfd, c.lookForHolder())
		if arrived != nothingArrived {
			count++
		}
		if x.examineArrival(c, p, arrived) {
			return
		}
	}
	x.leaveAlone(c, "its client wrote no MCP that could be seen before it was read")
}

// examineArrival decides about a candidate by an event that its peeker has received, if that shows something.
func (x *examiner) examineArrival(c *candidate, p *peeker, arrived arrival) (decided bool) {
	switch arrived {
	case programEnded:
		x.conclude(c, "it has ended")
		return true
	case gatewayEnded:
		x.examineUnread(c) // the message may lie there, and the copy of it be on its way
		x.conclude(c, "the gateway has ended")
		return true
	case answerArrived:
		message := mcp.FindAnswer(p.peekAnswer())
		if message == "" {
			return false
		}
		return x.recognize(c, answers+message, nil)
	case inputMissed:
		p.openAnswer(&c.program, c.program.client.PID)
	case inputArrived:
		input := p.tap.receive()
		if input.closed {
			return x.examineClosed(c, p)
		}
		if x.examineInput(c, input.text, nil) {
			return true
		}
		if len(input.text) > 0 { // what is no message stays until it is read
			time.Sleep(lookEvery)
		}
	}
	return false
}

// examineClosed decides about a candidate whose stdin was closed. Its answer may still be unread.
func (x *examiner) examineClosed(c *candidate, p *peeker) (decided bool) {
	p.openAnswer(&c.program, c.program.client.PID)
	message := mcp.FindAnswer(p.peekAnswer())
	if message != "" && x.recognize(c, answers+message, nil) {
		return true
	}
	why := "its stdin was closed, and no MCP was seen before it was read"
	if c.withoutClient.Load() > 0 {
		why = hasNoClient
	}
	x.conclude(c, why)
	return true
}

// threadsShare is the part of the processes that a user may have which the watcher leaves to others: it uses
// one in so many.
const threadsShare = 16

// reserveThreads counts one more candidate, and returns false if there may be no threads for it. The
// threads count for the limit of the user's processes (RLIMIT_NPROC), which is the gateway's, too: it has
// to be able to fork.
func (x *examiner) reserveThreads() bool {
	const threads = 2 // that of attend, and that of the tap
	var limit unix.Rlimit
	_ = unix.Getrlimit(unix.RLIMIT_NPROC, &limit) // it can't fail
	most := int64(min(limit.Cur, 1<<32) / threads / threadsShare)
	if x.attended.Add(1) <= most || os.Geteuid() == 0 {
		return true
	}
	x.attended.Add(-1)
	return false
}

// nextExec is the execve of a candidate's own process that waits for an answer.
type nextExec struct {
	call *heldCall
	argv []string
}

// examineUnread looks for a message in the unread input of a candidate.
func (x *examiner) examineUnread(c *candidate) {
	x.examineInput(c, c.program.unread(), nil)
}

// examineNextExec looks for a message when a candidate's own process executes another program.
func (x *examiner) examineNextExec(c *candidate, next *nextExec) {
	if !x.examineInput(c, c.program.unread(), next) {
		c.setArguments(next.argv)
	}
}

// examineInput decides by the input of a candidate, if that shows something. next is nil unless its process
// executes another program.
func (x *examiner) examineInput(c *candidate, text []byte, next *nextExec) (decided bool) {
	message, isOther := mcp.Find(text)
	switch {
	case message != "":
		return x.recognize(c, wroteMCP+message, next)
	case isOther && c.group == nil && !c.hasInput.Load(): // later input may begin within a message
		x.leaveAlone(c, "its input does not begin with MCP")
		return true
	case len(text) > 0:
		c.hasInput.Store(true)
	}
	return false
}

const clientLooks = 3

// recognize accepts a candidate by its messages, if it has a client. Else it may have one at its next
// message: /proc is read while processes fork.
func (x *examiner) recognize(c *candidate, why string, next *nextExec) (decided bool) {
	hadClient := c.program.client.ended() && isAbandoned(c.program.pid)
	if hadClient || c.findClient() {
		x.accept(c, why, next)
		return true
	}
	if c.withoutClient.Add(1) < clientLooks {
		return false
	}
	x.leaveAlone(c, hasNoClient+": "+why)
	return true
}

const hasNoClient = "no process writes its input and reads its output, as a client does"

// accept makes a candidate a server, unless it is decided already. next is as in examineInput.
func (x *examiner) accept(c *candidate, why string, next *nextExec) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isDecided {
		return
	}
	c.isDecided = true
	var call *heldCall
	if next != nil {
		c.program.argv = next.argv
		call = next.call
	}
	x.candidates.rememberSpoken(c.program.argv)
	switch {
	case c.group != nil:
		x.groups.prove(c.group, &c.program, why)
	case x.groups.memberships.of(c.program.pid) == memberOfServer:
		// A server has started it, and was recognized before. So it is part of that, as a program is that a
		// server starts later.
		x.reporter.explanations.write(c.program.pid, "left", c.program.argv, "it is part of another server")
	default:
		x.groups.contain(c.program, call, why)
	}
}

// leaveAlone is the end of a candidate that was not proven a server.
func (x *examiner) leaveAlone(c *candidate, why string) {
	if x.dismiss(c) {
		x.reporter.explanations.write(c.program.pid, "left", c.arguments(), why)
	}
}

// dismiss leaves a candidate alone, unless it is decided already. Its group's members go back to the
// gateway's cgroup, and stay if there is no gateway any more.
func (x *examiner) dismiss(c *candidate) (dismissed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isDecided {
		return false
	}
	c.isDecided = true
	if c.group == nil {
		return true
	}
	if !c.program.client.exits() {
		c.group.MoveToClient(c.program.client.PID)
	}
	x.servers.release(c.group)
	return true
}
