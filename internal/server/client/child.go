// SPDX-License-Identifier: Apache-2.0

//go:build linux

package client

import (
	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/kernel/proc"
)

// Child is a process of the client's that is about to become a server. Whoever knows of it
// keeps it from forking meanwhile.
type Child struct {
	PID         int
	PIDFD       int
	ClientPIDFD int
}

// WatchChild looks at the descriptors 0 and 1 of a process. held is one that has to stay
// open, or -1.
func WatchChild(r Child) (in *Side, held int, err error) {
	in, held = &Side{PIDFD: r.ClientPIDFD, Main: r.PIDFD}, -1
	stdin, borrowed := r.borrow(0)
	if stdin >= 0 {
		err = in.watchStdin(stdin)
	}
	if stdin >= 0 && borrowed {
		_ = unix.Close(stdin)
	} else {
		held = stdin
	}
	if stdout, borrowed := r.borrow(1); borrowed && err == nil {
		if in.Stdout, err = newWatch(stdout, failure); err == nil {
			in.Room[0], err = newWatch(stdout, room)
		}
		_ = unix.Close(stdout)
	} else if stdout >= 0 {
		_ = unix.Close(stdout)
	}
	return in, held, err
}

func (in *Side) watchStdin(fd int) error {
	var err error
	if in.Stdin, err = newWatch(fd, hangUp); err != nil {
		return err
	}
	file, conveyed := identifyFile(fd)
	if !conveyed {
		return nil
	}
	in.File, in.Conveyed, in.Socket = file, true, !isFIFO(fd)
	in.Input, err = newWatch(fd, input)
	return err
}

// borrow gets a copy of a descriptor. That takes the right to ptrace, which under yama only a
// process above has; then a pipe can be opened once more, but its copy is another one, which
// tells of a hang-up only as long as it is open. A socket can't.
func (r Child) borrow(fd int) (got int, copied bool) {
	got, err := proc.GetDescriptor(r.PID, r.PIDFD, fd)
	if err == nil {
		return got, true
	}
	if fd != 0 {
		return -1, false // another writer would keep the client from seeing the end of stdout
	}
	got, err = unix.Open(proc.DescriptorPath(r.PID, fd), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err == nil && isFIFO(got) {
		return got, false
	}
	if err == nil {
		_ = unix.Close(got) // a file has no other end
	}
	return -1, false
}

func isFIFO(fd int) bool {
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFIFO
}
