// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/gateway/mcp"
	"github.com/mcpscope/mcpscope/internal/gateway/notify"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/client"
	"github.com/mcpscope/mcpscope/internal/server/launcher"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// A program that is neither configured nor named may still be a server: then its client writes MCP to its
// stdin. That lies there until the program has started, which takes most servers longer than a client to
// speak. A server that runs already is woken by the same write as the watcher, and may be faster. Then the
// watcher looks for the answer, which the client is as slow to read.

const (
	lookEvery = 10 * time.Millisecond
	looks     = 1000 // a filter or a language server has its input read no longer
	linesMost = 4096 // command lines that are remembered
)

// candidate is a program that may be a server.
type candidate struct {
	pid, pidfd int
	stdin      file
	stdout     file // when it was executed: a shell can have another one for its commands
	client     *starter
	group      *launcher.Taken // of one that is known by its name alone, see place; or nil
	holder     holder

	hasInput      atomic.Bool  // some was seen
	withoutClient atomic.Int32 // messages of a process that is no client

	mu   sync.Mutex
	argv []string
	over bool // it is decided, or pidfd is closed
}

// candidates are indexed by their stdin: a child with the same stdin is part of one.
type candidates struct {
	mu     sync.Mutex
	all    map[file]*candidate
	spoken map[string]bool // command lines
	// unproven are the ids of groups of programs that are known by their name alone, or were left alone.
	unproven map[string]bool
}

// dropGroup ends the candidate that a process is, whose members are moved to another group.
func (all *candidates) dropGroup(pid int) {
	all.mu.Lock()
	var found *candidate
	for _, c := range all.all {
		if c.pid == pid && c.group != nil {
			found = c
		}
	}
	all.mu.Unlock()
	if found != nil {
		found.mu.Lock()
		defer found.mu.Unlock()
		found.over = true
	}
}

func (all *candidates) of(stdin file) *candidate {
	all.mu.Lock()
	defer all.mu.Unlock()
	return all.all[stdin]
}

// speaks: a client that connects again starts the same command. One argument at least, for an interpreter
// alone runs whatever it reads.
func (all *candidates) speaks(argv []string) bool {
	all.mu.Lock()
	defer all.mu.Unlock()
	return len(argv) > 1 && all.spoken[strings.Join(argv, "\x00")]
}

func (all *candidates) remember(argv []string) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if len(all.spoken) < linesMost {
		all.spoken[strings.Join(argv, "\x00")] = true
	}
}

// hasGroup reports whether a group is that of a candidate.
func (all *candidates) hasGroup(id string) bool {
	all.mu.Lock()
	defer all.mu.Unlock()
	return all.unproven[id]
}

// setUnproven records whether a group is that of a candidate. One that is left alone stays one.
func (all *candidates) setUnproven(id string, is bool) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if is {
		all.unproven[id] = true
	} else {
		delete(all.unproven, id)
	}
}

// attend reads the input of a candidate until it is decided. It has a thread of its own: to be woken by the
// runtime's poller takes longer than a server takes to read a message.
func (w *watcher) attend(c *candidate, p *peeker) {
	defer w.attended.Add(-1)
	defer w.candidates.forget(c)
	runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
	defer p.close()
	for count := 0; count < looks && !c.isDecided(); {
		if !p.reopen(c) {
			w.sayUnseen("too many open files (ulimit -n)")
		}
		arrived := p.await(c.pidfd, c.client.pidfd, w.lookForHolder(c))
		if arrived != nothingArrived {
			count++
		}
		switch arrived {
		case programEnded:
			w.conclude(c, "it has ended")
			return
		case gatewayEnded:
			w.lookAt(c, nil, nil) // the message may lie there, and the copy of it be on its way
			w.conclude(c, "the gateway has ended")
			return
		case answerArrived:
			if message := mcp.FindAnswer(p.peekAnswer()); message != "" {
				if w.recognize(c, "it answers its client in MCP: "+message, nil, nil) {
					return
				}
			}
		case inputMissed:
			p.openAnswer(c, c.client.PID)
		case inputArrived:
			input := p.tap.receive()
			if input.closed {
				w.conclude(c, "its stdin was closed before its client wrote MCP")
				return
			}
			if w.readInput(c, input.text, nil, nil) {
				return
			}
			if len(input.text) > 0 { // what is no message stays until it is read
				time.Sleep(lookEvery)
			}
		}
	}
	w.leaveAlone(c, "its client wrote no MCP that could be seen before it was read")
}

// mayAttend reports whether there may be threads for one more candidate, and counts it. The threads count for
// the limit of the user's processes (RLIMIT_NPROC), which is the gateway's, too: it has to be able to fork.
func (w *watcher) mayAttend() bool {
	const threads = 2 // that of attend, and that of the tap
	var limit unix.Rlimit
	_ = unix.Getrlimit(unix.RLIMIT_NPROC, &limit) // it can't fail
	if w.attended.Add(1) <= int64(min(limit.Cur, 1<<32)/threads/threadsShare) || os.Geteuid() == 0 {
		return true
	}
	w.attended.Add(-1)
	return false
}

// threadsShare is the part of the processes that a user may have which the watcher leaves to others: it uses
// one in so many.
const threadsShare = 16

// readInput decides by the input of a candidate, if that shows something.
func (w *watcher) readInput(c *candidate, text []byte, argv []string, r *notify.Request) (decided bool) {
	message, isOther := mcp.Find(text)
	switch {
	case message != "":
		return w.recognize(c, wrote+message, argv, r)
	case isOther && c.group == nil && !c.hasInput.Load(): // later input may begin within a message
		w.leaveAlone(c, "its input does not begin with MCP")
		return true
	case len(text) > 0:
		c.hasInput.Store(true)
	}
	return false
}

// recognize accepts a candidate by its messages, if it has a client. Else it may have one at its next
// message: /proc is read while processes fork.
func (w *watcher) recognize(c *candidate, why string, argv []string, r *notify.Request) (decided bool) {
	hadClient := c.client.ended() && abandoned(c.pid)
	if hadClient || w.hasClient(c) {
		w.accept(c, why, argv, r)
		return true
	}
	if c.withoutClient.Add(1) < clientLooks {
		return false
	}
	w.leaveAlone(c, "no process writes its input and reads its output, as a client does: "+why)
	return true
}

const clientLooks = 3

// isDecided reports whether another thread has decided about a candidate.
func (c *candidate) isDecided() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.over
}

func (all *candidates) enter(c *candidate) {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.all[c.stdin] = c
}

func (all *candidates) forget(c *candidate) {
	all.mu.Lock()
	if all.all[c.stdin] == c {
		delete(all.all, c.stdin)
	}
	all.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	_ = unix.Close(c.pidfd)
}

// lookAt looks for a message in the execve r of a candidate's process, by which that executes argv, or of a
// process that it has started: then r is nil.
func (w *watcher) lookAt(c *candidate, argv []string, r *notify.Request) {
	if w.readInput(c, c.unread(), argv, r) {
		return
	}
	if r != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.argv = argv
	}
}

// accept makes a candidate a server, unless it is decided already. In its execve r it executes argv.
func (w *watcher) accept(c *candidate, why string, argv []string, r *notify.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return
	}
	c.over = true
	if r != nil {
		c.argv = argv
	}
	w.candidates.remember(c.argv)
	if c.group != nil {
		w.prove(c, why)
	} else {
		w.capture(c, why, r)
	}
}

// unread copies what is unread on a candidate's stdin.
func (c *candidate) unread() []byte {
	fd := c.openStdin()
	pipe := [2]int{-1, -1}
	_ = unix.Pipe2(pipe[:], unix.O_NONBLOCK|unix.O_CLOEXEC) // without one nothing is seen on pipes
	defer closeAll(fd, pipe[0], pipe[1])
	return copyNow(fd, c.stdin.Kind == unix.S_IFSOCK, pipe)
}

// isPipe is false for a named FIFO, which is a file of another file system.
func (f file) isPipe() bool {
	pipe := [2]int{-1, -1}
	_ = unix.Pipe2(pipe[:], unix.O_CLOEXEC) // without one it counts as a FIFO
	defer closeAll(pipe[0], pipe[1])
	own, _ := client.Identify(pipe[0], "")
	return f.Kind == unix.S_IFIFO && f.Dev == own.Dev
}

// file identifies the file of a descriptor.
type file struct {
	protocol.File
	Kind uint32 // of a mode's bits
}

// fileOf is the zero file for none.
func fileOf(fd int, link string) file {
	f, kind := client.Identify(fd, link)
	return file{f, kind}
}

func fileAt(pid, number int) file { return fileOf(unix.AT_FDCWD, proc.DescriptorPath(pid, number)) }

func (f file) isSocket() bool { return f.Kind == unix.S_IFSOCK }

// piped: another process may have the other end.
func (f file) piped() bool { return f.Kind == unix.S_IFIFO || f.Kind == unix.S_IFSOCK }

// arguments are those of a program that runs.
func arguments(pid int) []string { return proc.Arguments(pid, notify.BytesMost) }

// fileOfCaller is fileAt for a process that waits in a call. With the right to ptrace it takes half the time:
// otherwise the kernel makes a directory for a process that has just been forked.
func fileOfCaller(tid, number int) file {
	pidfd, err := unix.PidfdOpen(tid, 0)
	if err != nil { // a thread
		return fileAt(tid, number)
	}
	fd, err := unix.PidfdGetfd(pidfd, number, 0)
	_ = unix.Close(pidfd)
	if err != nil {
		return fileAt(tid, number)
	}
	f := fileOf(fd, "")
	if f.Kind == unix.S_IFIFO || f.Kind == unix.S_IFCHR {
		_ = unix.Close(fd)
	} else { // that may wait for a file system or for a peer
		go unix.Close(fd)
	}
	return f
}
