// SPDX-License-Identifier: Apache-2.0

//go:build linux

package gateway

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/proc"
)

// file is what a descriptor refers to.
type file struct {
	Dev, Ino uint64
	socket   bool
}

func (f file) same(o file) bool { return f.Dev == o.Dev && f.Ino == o.Ino }

func fileOf(st *unix.Stat_t) (f file, conveyed bool) {
	kind := st.Mode & unix.S_IFMT
	return file{st.Dev, st.Ino, kind == unix.S_IFSOCK}, kind == unix.S_IFSOCK || kind == unix.S_IFIFO
}

// stdioOf returns a process's stdin. piped: somebody else has the other ends of stdin and stdout.
func stdioOf(pid int) (stdin file, piped bool) {
	var st unix.Stat_t
	if unix.Stat(fmt.Sprintf("/proc/%d/fd/0", pid), &st) != nil {
		return file{}, false
	}
	stdin, piped = fileOf(&st)
	if !piped || unix.Stat(fmt.Sprintf("/proc/%d/fd/1", pid), &st) != nil {
		return stdin, false
	}
	_, piped = fileOf(&st)
	return stdin, piped
}

// input is a program's stdin, which is looked at and never read. No copy of it is kept where another
// can be had: as long as there is one, whoever writes to a dead program gets no error.
type input struct {
	file
	fd int // a copy that has to be kept, or -1
	// again: another copy can be had by pidfd_getfd; otherwise a pipe is opened once more.
	again bool
}

var errUnreadable = errors.New("its stdin may not be looked at")

// openInput finds out how to look at the stdin of a process. gateway is a pidfd of the process that may
// have started it, which has the other descriptor too until its child runs.
func openInput(pid, pidfd int, stdin file, gateway, gatewayPID int) (in input, fd int, err error) {
	in = input{file: stdin, fd: -1}
	if fd, err := unix.PidfdGetfd(pidfd, 0, 0); err == nil {
		in.again = true
		return in, fd, in.check(fd)
	}
	if !stdin.socket {
		fd, err := in.reopen(pid)
		return in, fd, err
	}
	if in.fd = descriptorOf(gateway, gatewayPID, stdin); in.fd < 0 {
		return in, -1, errUnreadable
	}
	return in, in.fd, nil
}

// open returns a copy, to be given back by done.
func (in *input) open(pid, pidfd int) (fd int, err error) {
	if in.fd >= 0 {
		return in.fd, nil
	}
	if !in.again {
		return in.reopen(pid)
	}
	if fd, err = proc.GetDescriptor(pid, pidfd, 0); err == nil {
		return fd, in.check(fd)
	}
	if in.socket {
		return -1, err
	}
	return in.reopen(pid) // of a thread, on a kernel that knows no pidfd of one
}

func (in *input) done(fd int) {
	if fd >= 0 && fd != in.fd {
		_ = unix.Close(fd) // a copy
	}
}

// reopen works without the right to ptrace, of which a pipe needs less than a copy does.
func (in *input) reopen(pid int) (int, error) {
	fd, err := unix.Open(proc.DescriptorPath(pid, 0), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err != nil {
		return -1, errUnreadable
	}
	return fd, in.check(fd)
}

// check closes what is another file by now.
func (in *input) check(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err == nil {
		if now, _ := fileOf(&st); now.same(in.file) {
			return nil
		}
	}
	_ = unix.Close(fd) // not what we wanted
	return unix.ESTALE
}

// descriptorOf gets a copy of a socket that a process has, whatever its number; -1 if there is none.
func descriptorOf(pidfd, pid int, f file) int {
	dir, err := os.Open(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return -1
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1) // as far as it goes
	want := fmt.Sprintf("socket:[%d]", f.Ino)
	for _, name := range names {
		if to, err := os.Readlink(dir.Name() + "/" + name); err != nil || to != want {
			continue
		}
		var number int
		if _, err := fmt.Sscan(strings.TrimSpace(name), &number); err != nil {
			continue
		}
		fd, err := unix.PidfdGetfd(pidfd, number, 0)
		if err != nil {
			return -1
		}
		in := input{file: f}
		if in.check(fd) == nil {
			return fd
		}
	}
	return -1
}

// readable is the cheapest question.
func (in *input) readable(fd int) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n > 0 && fds[0].Revents&unix.POLLIN != 0
}

// scratch is a pipe that unread input is copied to, and memory to read it into.
type scratch struct {
	read, write int
	buf         []byte
}

const inputMost = 64 << 10 // a pipe's size

func newScratch() (*scratch, error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_NONBLOCK|unix.O_CLOEXEC); err != nil {
		return nil, fmt.Errorf("create pipe: %w", err)
	}
	return &scratch{fds[0], fds[1], make([]byte, inputMost)}, nil
}

// peek returns what is unread, and leaves it there. The result is valid until the next call.
func (s *scratch) peek(fd int, socket bool) []byte {
	if socket {
		n, _, err := unix.Recvfrom(fd, s.buf, unix.MSG_PEEK|unix.MSG_DONTWAIT)
		if err != nil {
			return nil
		}
		return s.buf[:n]
	}
	copied, err := unix.Tee(fd, s.write, inputMost, unix.SPLICE_F_NONBLOCK)
	if err != nil || copied <= 0 {
		return nil
	}
	all := 0
	for all < int(copied) {
		n, err := unix.Read(s.read, s.buf[all:])
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			break // it can't be: nobody else reads there
		}
		all += n
	}
	return s.buf[:all]
}
