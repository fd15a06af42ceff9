// SPDX-License-Identifier: Apache-2.0

//go:build linux

package client

import (
	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/kernel/proc"
)

// Child is a process of the client that becomes a server. The caller keeps it from forking meanwhile.
type Child struct {
	PID         int
	PIDFD       int
	ClientPIDFD int
}

// WatchChild watches the descriptors 0 and 1 of a process. held is a descriptor that must stay open, or -1.
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

// borrow copies a descriptor. That needs the right to ptrace, which yama gives to an ancestor alone.
// Without it, borrow opens a pipe once more. The new description reports a hang-up only while it is open. A
// socket cannot be opened.
func (r Child) borrow(fd int) (got int, copied bool) {
	got, err := unix.PidfdGetfd(r.PIDFD, fd, 0)
	if err == nil {
		return got, true
	}
	if fd != 0 {
		return -1, false // another writer would keep the client from seeing the end of stdout
	}
	const flags = unix.O_RDONLY | unix.O_NONBLOCK | unix.O_CLOEXEC | unix.O_NOCTTY
	got, err = unix.Open(proc.DescriptorPath(r.PID, fd), flags, 0)
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
