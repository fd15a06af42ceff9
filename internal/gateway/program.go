// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"errors"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/gateway/notify"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/client"
	"github.com/mcpscope/mcpscope/internal/server/launcher"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// program is a process below the gateway that may be a server.
type program struct {
	pid    int
	pidfd  int
	stdin  file
	stdout file // when it was executed: a shell can have another one for its commands
	argv   []string
	client *starter
}

// file identifies the file of a descriptor.
type file struct {
	protocol.File
	Kind uint32 // of a mode's bits
}

// identifyFile returns the zero file if the descriptor or the link does not exist.
func identifyFile(fd int, link string) file {
	f, kind := client.Identify(fd, link)
	return file{File: f, Kind: kind}
}

// fileAt identifies the file of a descriptor of a process.
func fileAt(pid, number int) file {
	return identifyFile(unix.AT_FDCWD, proc.DescriptorPath(pid, number))
}

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
	f := identifyFile(fd, "")
	if f.Kind == unix.S_IFIFO || f.Kind == unix.S_IFCHR {
		_ = unix.Close(fd)
	} else { // that may wait for a file system or for a peer
		go unix.Close(fd)
	}
	return f
}

// isHidden reports whether the zero file is that of a stdin which this process may not look at.
func (f file) isHidden(pid int) bool {
	if f != (file{}) {
		return false
	}
	_, err := os.Readlink(proc.DescriptorPath(pid, 0))
	return errors.Is(err, os.ErrPermission)
}

func (f file) isSocket() bool { return f.Kind == unix.S_IFSOCK }

// mayHavePeer reports whether another process may have the other end.
func (f file) mayHavePeer() bool { return f.Kind == unix.S_IFIFO || f.isSocket() }

// isPipe is false for a named FIFO, which is a file of another file system.
func (f file) isPipe() bool {
	pipe := [2]int{-1, -1}
	_ = unix.Pipe2(pipe[:], unix.O_CLOEXEC) // without a descriptor it counts as a FIFO
	defer closeAll(pipe[0], pipe[1])
	anonymous, _ := client.Identify(pipe[0], "")
	return f.Kind == unix.S_IFIFO && f.Dev == anonymous.Dev
}

func (f file) opposite() client.End { return client.EndOpposite(f.File, f.isSocket()) }

// arguments returns the arguments of a running program within their first notify.BytesMost bytes.
func arguments(pid int) []string { return proc.Arguments(pid, notify.BytesMost) }

// closeAll closes copies and pidfds. It skips negative numbers.
func closeAll(fds ...int) {
	for _, fd := range fds {
		if fd >= 0 {
			_ = unix.Close(fd) // no data can be lost
		}
	}
}

// openStdin returns a descriptor of a program's stdin, or -1.
func (p *program) openStdin() (fd int) {
	fd, err := unix.PidfdGetfd(p.pidfd, 0, 0)
	if err != nil {
		return p.openPipe() // that needs less than the right to ptrace
	}
	return p.checkStdin(fd)
}

// openStdinToWait is openStdin with a new open file for a pipe: one that blocks, whatever the program has
// made of its own.
func (p *program) openStdinToWait() (fd int) {
	fd = p.openPipe()
	if fd < 0 {
		return p.openStdin()
	}
	_ = unix.SetNonblock(fd, false) // it is valid
	return fd
}

// openPipe opens a program's stdin once more, if that is a pipe; or it returns -1.
func (p *program) openPipe() (fd int) {
	if p.stdin.Kind != unix.S_IFIFO {
		return -1
	}
	const how = unix.O_RDONLY | unix.O_NONBLOCK | unix.O_CLOEXEC // without O_NONBLOCK a FIFO's open waits
	fd, err := unix.Open(proc.DescriptorPath(p.pid, 0), how, 0)
	if err != nil {
		return -1
	}
	return p.checkStdin(fd)
}

// checkStdin returns fd if it is the program's stdin. Otherwise that is another file by now: fd is closed,
// and the result is -1.
func (p *program) checkStdin(fd int) int {
	if identifyFile(fd, "") == p.stdin {
		return fd
	}
	closeAll(fd)
	return -1
}

// unread copies what is unread on a program's stdin.
func (p *program) unread() []byte {
	fd := p.openStdin()
	pipe := [2]int{-1, -1}
	_ = unix.Pipe2(pipe[:], unix.O_NONBLOCK|unix.O_CLOEXEC) // without one nothing is seen on pipes
	defer closeAll(fd, pipe[0], pipe[1])
	return copyNow(fd, p.stdin.isSocket(), pipe)
}

// hasClient reports whether one process, as a rule an ancestor below the gateway or the gateway itself, has
// the other ends of a program's stdin and stdout, as a client of MCP does. In `cat log.jsonl | python3
// analyze.py | sort` one process writes and another one reads: the program is a filter, whose input happens
// to be MCP. It is true if that cannot be found out.
func (p *program) hasClient() bool {
	if p.hasClientAbove() {
		return true
	}
	in := p.stdin.opposite()
	out := p.stdout.opposite()
	found := false // a process that is no ancestor any more, or never was
	err := proc.Each(func(other int) bool {
		if other == p.pid || other == os.Getpid() {
			return true
		}
		writes, reads, err := client.HasEnds(other, in, out) // that of another user is not its client
		found = err == nil && writes && reads
		return !found
	})
	return found || err != nil
}

// hasClientAbove is hasClient for ancestors alone. It does not read all processes of the host.
func (p *program) hasClientAbove() bool {
	in := p.stdin.opposite()
	out := p.stdout.opposite()
	above := p.pid
	for range ancestorsMost {
		st, err := proc.ReadStat(above)
		isOver := st.PPID <= 1 && st.PPID != p.client.PID // a gateway can be the first process of a container
		if err != nil || isOver || above == p.client.PID {
			return false
		}
		above = st.PPID
		if hasBothEnds(above, in, out) {
			return true
		}
	}
	return false
}

// hasBothEnds is true for an ancestor that may not be read, such as sudo.
func hasBothEnds(pid int, in, out client.End) bool {
	writes, reads, err := client.HasEnds(pid, in, out)
	isUnreadable := err != nil && !proc.IsGone(err)
	return isUnreadable || writes && reads
}

// isAbandoned reports whether no process has the other ends of a program's stdin and stdout. Then the
// gateway, which has just ended, was its client. A program of a tool that the gateway has left has a
// client: the tool. Siblings that were forked and have not executed anything yet still have copies of the
// pipes, so it looks for up to 200 ms.
func isAbandoned(pid int) bool {
	for range 20 {
		if client.Closed(pid, 0) && client.Closed(pid, 1) {
			return true
		}
		time.Sleep(10 * time.Millisecond)
	}
	return false
}

// isAbandonedInExecve is isAbandoned for a program that waits in its execve. As long as that waits, the
// program has copies of the gateway's own ends: a client in Go, Rust or Node leaves it to the execve to close
// them. So they do not count if no other process has one of them.
func (p *program) isAbandonedInExecve() bool {
	if isAbandoned(p.pid) {
		return true
	}
	in := p.stdin.opposite()
	out := p.stdout.opposite()
	writes, reads, err := client.HasEnds(p.pid, in, out)
	hasOwn := err == nil && writes && reads && in.IsKnown() && out.IsKnown()
	return hasOwn && !p.othersMayHave(in, out)
}

// othersMayHave reports whether another process has one of the ends, or may have it: one that can't be
// examined counts if it is in the cgroup of the program, as a tool below sudo is.
func (p *program) othersMayHave(in, out client.End) bool {
	ours := []int{os.Getpid(), os.Getppid()} // the guard can't be examined
	found := false
	err := proc.Each(func(other int) bool {
		if other == p.pid || slices.Contains(ours, other) {
			return true
		}
		writes, reads, err := client.HasEnds(other, in, out)
		isHidden := err != nil && !proc.IsGone(err) && launcher.IsBeside(other, p.pid)
		found = writes || reads || isHidden
		return !found
	})
	return found || err != nil
}
