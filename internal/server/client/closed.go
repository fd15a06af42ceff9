// SPDX-License-Identifier: Apache-2.0

//go:build linux

package client

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/kernel/linux"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
)

// Closed reports whether no process has the other end of a descriptor of another process, 0 or 1. It is
// false for a named FIFO, for a socket of another network namespace, and if it cannot be found out.
func Closed(pid, number int) bool {
	link := proc.DescriptorPath(pid, number)
	var st unix.Statx_t
	if unix.Statx(unix.AT_FDCWD, link, unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE|unix.STATX_INO, &st) != nil {
		return false
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFSOCK:
		peer, stream, err := peerOf(st.Ino)
		return err == nil && peer == 0 && stream
	case unix.S_IFIFO:
		return pipeClosed(link, number, st.Ino)
	}
	return false
}

// AwaitRoom waits until a process can write to its descriptor, and returns false if that takes too long.
func AwaitRoom(pid, number int, within time.Duration) bool {
	link := proc.DescriptorPath(pid, number)
	fd, err := unix.Open(link, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err == unix.ENXIO { // a socket
		if process, failed := unix.PidfdOpen(pid, 0); failed == nil {
			fd, err = unix.PidfdGetfd(process, number, 0)
			_ = unix.Close(process) // a pidfd has nothing to flush
		}
	}
	if err != nil {
		return true
	}
	defer unix.Close(fd)
	return linux.AwaitEnd(fd, unix.POLLOUT, within)
}

// pipeClosed opens the same end once more, which does not affect the other end.
func pipeClosed(link string, number int, ino uint64) bool {
	flags, events := unix.O_RDONLY, int16(unix.POLLHUP)
	if number > 0 {
		flags, events = unix.O_WRONLY, unix.POLLERR
	}
	fd, err := unix.Open(link, flags|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	f, _ := identifyFile(fd)
	var on unix.Statfs_t
	if f.Ino != ino || unix.Fstatfs(fd, &on) != nil || on.Type != unix.PIPEFS_MAGIC {
		return false // a FIFO reports no hang-up after an open
	}
	fds := []unix.PollFd{{Fd: int32(fd), Events: events}}
	_, err = unix.Poll(fds, 0)
	return err == nil && fds[0].Revents&events != 0
}
