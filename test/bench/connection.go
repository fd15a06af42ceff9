// SPDX-License-Identifier: Apache-2.0

//go:build linux

package bench

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/linux"
)

// A connection is made anew for each direction: of two descriptors, the reader's and the
// writer's.
type connection func() (reader, writer int, err error)

func pipe() (int, int, error) {
	var fds [2]int
	err := unix.Pipe2(fds[:], unix.O_CLOEXEC)
	return fds[0], fds[1], os.NewSyscallError("pipe2", err)
}

// socketpair is what Node.js gives a server.
func socketpair() (int, int, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	return fds[0], fds[1], os.NewSyscallError("socketpair", err)
}

// watch registers a server's pipes as run does, and holds nothing else of them: what the
// kernel needs for that shows in bare.
func watch(stdin, stdout int) ([]*linux.Watch, error) {
	var all []*linux.Watch
	for _, w := range []struct {
		fd     int
		events uint32
	}{{stdin, linux.HangUp}, {stdin, linux.Input}, {stdout, linux.Error}} {
		set, err := linux.NewWatch(w.fd, w.events)
		if err != nil {
			return nil, err
		}
		all = append(all, set)
	}
	return all, nil
}
