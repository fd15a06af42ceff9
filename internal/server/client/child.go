// SPDX-License-Identifier: Apache-2.0

//go:build linux

package client

import (
	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
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
	stdout, _ := r.borrow(1)
	err = in.watch(stdin, stdout, -1)
	if borrowed {
		_ = unix.Close(stdin)
	} else {
		held = stdin
	}
	if stdout >= 0 {
		_ = unix.Close(stdout)
	}
	return in, held, err
}

// identifyFile returns the file of fd, and the type in its mode; 0 for none.
func identifyFile(fd int) (f protocol.File, kind uint32) {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return protocol.File{}, 0
	}
	return protocol.File{Dev: uint64(st.Dev), Ino: st.Ino}, st.Mode & unix.S_IFMT
}

// unreadInput reports whether input that the client wrote to f is still waiting for the
// process behind pidfd, which has f as its descriptor 0 (pidfd_getfd, Linux 5.6).
// What can't be found out counts as read.
func unreadInput(pidfd int, f protocol.File) bool {
	fd, err := unix.PidfdGetfd(pidfd, 0, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	if is, _ := identifyFile(fd); is != f {
		return false
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCINQ)
	return err == nil && n > 0
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
	if got, err = unix.Open(proc.DescriptorPath(r.PID, fd), flags, 0); err != nil {
		return -1, false
	}
	if _, kind := identifyFile(got); kind != unix.S_IFIFO {
		_ = unix.Close(got) // a file has no other end
		return -1, false
	}
	return got, false
}
