// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cgroup

import (
	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/kernel/proc"
)

// An os.File would be opened non-blocking and pollable, and a write that the
// kernel answers with EAGAIN (memory.reclaim) would then park for ever; and
// os.WriteFile adds O_CREATE, which turns the ENOENT of a missing interface file
// into EACCES. Hence the raw calls.

func openRetry(dir int, name string, flags int) (int, error) {
	for {
		fd, err := unix.Openat(dir, name, flags|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

func openDir(dir int, name string) (int, error) {
	return openRetry(dir, name, unix.O_RDONLY|unix.O_DIRECTORY)
}

// readShort reads a file that the kernel gives in one piece (flat-keyed files and single numbers;
// no list of processes) into buf, which the caller may have on its stack: who looks at a thousand
// groups would make more garbage than figures.
func readShort(dir int, name string, buf []byte) ([]byte, error) {
	fd, err := openRetry(dir, name, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	for {
		n, err := unix.Read(fd, buf)
		if err != unix.EINTR {
			return buf[:max(n, 0)], err
		}
	}
}

func readFile(dir int, name string) ([]byte, error) {
	fd, err := openRetry(dir, name, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	return proc.ReadAll(fd, -1)
}

func writeFile(dir int, name, value string) error {
	fd, err := openRetry(dir, name, unix.O_WRONLY)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	for {
		_, err = unix.Write(fd, []byte(value))
		if err != unix.EINTR {
			return err
		}
	}
}
