// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"runtime"
	"strings"
	"sync"
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
	group      *launcher.Taken // of one that is known by its name alone, see place; or nil
	holder     holder

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
	defer w.candidates.forget(c)
	runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
	defer p.close()
	for range looks {
		p.reopen(c)
		switch p.await(c.pidfd, w.gateway, w.lookForHolder(c)) {
		case programEnded:
			w.conclude(c, "it has ended")
			return
		case gatewayEnded:
			w.conclude(c, "the gateway has ended")
			return
		case answerArrived:
			if message := mcp.FindAnswer(p.peekAnswer()); message != "" {
				w.accept(c, "it answers its client in MCP: "+message, nil, nil)
				return
			}
		case inputMissed:
			p.openAnswer(c, w.PID)
		case inputArrived:
			input := p.tap.receive()
			if input.closed {
				w.conclude(c, "its stdin was closed before its client wrote MCP")
				return
			}
			if message := mcp.Find(input.text); message != "" {
				w.accept(c, wrote+message, nil, nil)
				return
			}
			if len(input.text) > 0 { // what is no message stays until it is read
				time.Sleep(lookEvery)
			}
		}
	}
	w.leaveAlone(c, "its client wrote no MCP that could be seen before it was read")
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
	if message := mcp.Find(c.unread()); message != "" {
		w.accept(c, wrote+message, argv, r)
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
