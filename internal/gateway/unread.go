// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"errors"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/gateway/mcp"
	"github.com/mcpscope/mcpscope/internal/gateway/notify"
	"github.com/mcpscope/mcpscope/internal/kernel/linux"
	"github.com/mcpscope/mcpscope/internal/kernel/loop"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/client"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// A program that is neither configured nor named may still be a server: then its client writes MCP to its
// stdin. That lies there until the program has started, which takes most servers longer than a client to
// speak. A server that runs already is woken by the same write as the watcher, which may be first.

const (
	lookEvery = 10 * time.Millisecond
	starts    = 500  // looks while it starts; not a time: on a busy machine a program starts later
	looks     = 1000 // in all: a filter or a language server has its input read no longer
	linesMost = 4096 // command lines that are remembered
)

// candidate is a program that may be a server.
type candidate struct {
	pid, pidfd int
	stdin      file

	mu   sync.Mutex
	argv []string
	over bool // it is decided, or pidfd is closed
}

// candidates are indexed by their stdin: a child with the same stdin is part of one.
type candidates struct {
	mu     sync.Mutex
	all    map[file]*candidate
	spoken map[string]bool // command lines
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

// attend reads the input of a candidate until it is decided.
func (w *watcher) attend(c *candidate) {
	defer w.candidates.forget(c)
	for i := range looks {
		if linux.Ended(w.gateway) || linux.Ended(c.pidfd) {
			return
		}
		if over, unread := w.lookAt(c, nil, nil); over {
			return
		} else if unread > 0 || c.await(i) != nil { // what is no message stays until it is read
			time.Sleep(lookEvery)
		}
	}
	w.explain(c.pid, "left", c.argv, "its client wrote no MCP that could be seen before it was read")
}

// await waits for the client's next write, the program's end, or the next look while it starts. The kernel
// wakes who waits for a file in turn, the newest first: so each wait is a new one.
func (c *candidate) await(look int) error {
	var until time.Time
	if look < starts {
		until = time.Now().Add(min(time.Duration(look)*time.Millisecond, lookEvery))
	}
	l, err := loop.New()
	if err != nil {
		return err
	}
	defer l.Close()
	stdin := c.open()
	err = errors.Join(l.Add(c.pidfd, loop.TokenMain), l.Add(stdin, loop.TokenStdin))
	closeAll(stdin) // the set keeps it, as long as the program does
	if err == nil {
		l.Next(until)
	}
	return err
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

// lookAt returns true if there is nothing more to be seen. A server is captured then: in its execve if r is
// not nil, by which the candidate's process executes argv.
func (w *watcher) lookAt(c *candidate, argv []string, r *notify.Request) (over bool, unread int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return true, 0
	}
	if r != nil {
		c.argv = argv
	}
	text := c.unread()
	if message := mcp.Find(text); message != "" {
		c.over = true
		w.candidates.remember(c.argv)
		w.capture(c.pid, c.pidfd, c.argv, "its client writes MCP: "+message, r)
	}
	return c.over, len(text)
}

// end is for one that is decided, or nil.
func (c *candidate) end() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
}

// open returns a descriptor of a candidate's stdin, -1 without one. It isn't kept: as long as there is one, a
// client that writes to a dead program gets no error.
func (c *candidate) open() int {
	fd, err := unix.PidfdGetfd(c.pidfd, 0, 0)
	if err != nil && c.stdin.Kind == unix.S_IFIFO { // of a pipe it needs less than the right to ptrace
		fd, err = unix.Open(proc.DescriptorPath(c.pid, 0), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	}
	if err == nil && fileOf(fd, "") == c.stdin {
		return fd
	}
	closeAll(fd) // it has another stdin by now
	return -1
}

// unread copies what is unread on a candidate's stdin.
func (c *candidate) unread() []byte {
	fd := c.open()
	if fd < 0 {
		return nil
	}
	defer unix.Close(fd)
	n, err := unix.IoctlGetInt(fd, unix.TIOCINQ)
	if err != nil || n == 0 {
		return nil
	}
	buf := make([]byte, min(n, mcp.LineMost))
	if c.stdin.Kind == unix.S_IFSOCK {
		n, _, _ = unix.Recvfrom(fd, buf, unix.MSG_PEEK|unix.MSG_DONTWAIT) // nothing, or end of file
		return buf[:max(n, 0)]
	}
	var pipe [2]int
	if unix.Pipe2(pipe[:], unix.O_NONBLOCK|unix.O_CLOEXEC) != nil {
		return nil
	}
	defer closeAll(pipe[:]...)
	if _, err := unix.Tee(fd, pipe[1], len(buf), unix.SPLICE_F_NONBLOCK); err != nil {
		return nil
	}
	n, _ = unix.Read(pipe[0], buf)
	return buf[:max(n, 0)]
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
