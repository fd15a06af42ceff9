// SPDX-License-Identifier: Apache-2.0

//go:build linux

package client

import (
	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// identifyFile returns the file of fd, and whether it has another end: a pipe, FIFO or socket.
func identifyFile(fd int) (protocol.File, bool) {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return protocol.File{}, false
	}
	kind := st.Mode & unix.S_IFMT
	return protocol.File{Dev: uint64(st.Dev), Ino: st.Ino}, kind == unix.S_IFIFO || kind == unix.S_IFSOCK
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
	if is, conveyed := identifyFile(fd); !conveyed || is != f {
		return false
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCINQ)
	return err == nil && n > 0
}
