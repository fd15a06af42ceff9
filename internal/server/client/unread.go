// SPDX-License-Identifier: Apache-2.0

//go:build linux

package client

import (
	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// identifyFile returns what fd refers to, and whether it is a pipe, FIFO or socket: only
// those have another end that can be closed.
func identifyFile(fd int) (protocol.File, bool) {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return protocol.File{}, false
	}
	kind := st.Mode & unix.S_IFMT
	return protocol.File{Dev: uint64(st.Dev), Ino: st.Ino}, kind == unix.S_IFIFO || kind == unix.S_IFSOCK
}

// unreadInput tells whether input that the client wrote to f is still waiting for the
// process behind pidfd, which has f as its descriptor 0. On a socket the Input of a
// Watch can't be told from the hang-up, and we hold no descriptor of our own. What
// can't be found out counts as read.
func unreadInput(pidfd int, f protocol.File) bool {
	return borrow(pidfd, 0, f, func(fd int) bool {
		n, err := unix.IoctlGetInt(fd, unix.TIOCINQ)
		return err == nil && n > 0
	})
}

// outputFull tells whether the process behind pidfd, which has f as its descriptor 1, would have to wait
// for the client before it can write. What can't be found out counts as not full.
func outputFull(pidfd int, f protocol.File) bool {
	return borrow(pidfd, 1, f, func(fd int) bool {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
		_, err := unix.Poll(fds, 0)
		return err == nil && fds[0].Revents == 0
	})
}

// borrow asks about a descriptor of another process, which it has for that moment (pidfd_getfd,
// Linux 5.6); false if it is not f any more.
func borrow(pidfd, number int, f protocol.File, ask func(fd int) bool) bool {
	fd, err := unix.PidfdGetfd(pidfd, number, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	if is, conveyed := identifyFile(fd); !conveyed || is != f {
		return false
	}
	return ask(fd)
}
