// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cgroup

import (
	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/kernel/proc"
)

// An os.File would be non-blocking and pollable: a write to which the kernel answers EAGAIN
// (memory.reclaim) would park for ever. os.WriteFile adds O_CREATE, which turns the ENOENT of a missing
// file into EACCES.

func open(dir int, name string, flags int) (int, error) {
	return unix.Openat(dir, name, flags|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
}

func openDir(dir int, name string) (int, error) {
	return open(dir, name, unix.O_RDONLY|unix.O_DIRECTORY)
}

func readFile(dir int, name string) ([]byte, error) { return proc.ReadAt(dir, name, proc.NoLimit) }

func writeFile(dir int, name, value string) error {
	fd, err := open(dir, name, unix.O_WRONLY)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	for {
		_, err = unix.Write(fd, []byte(value))
		if err != unix.EINTR { // of memory.reclaim
			return err
		}
	}
}
