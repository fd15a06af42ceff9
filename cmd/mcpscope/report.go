// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// openReport opens the destination of --report. The server does not inherit the descriptor.
func openReport(where string) (int, error) {
	if where == "" {
		return -1, nil
	}
	number, isFD := strings.CutPrefix(where, "fd:")
	if !isFD {
		return openAppend(where)
	}
	fd, err := strconv.Atoi(number)
	if err != nil || fd < 0 {
		return -1, fmt.Errorf("%q is no descriptor number", number)
	}
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil {
		return -1, fmt.Errorf("descriptor %d: %w", fd, err)
	}
	if flags&unix.O_ACCMODE == unix.O_RDONLY {
		return -1, fmt.Errorf("descriptor %d is not open for writing", fd)
	}
	if fd <= 2 {
		// the server keeps its own; ours is closed with the server's stdio
		return unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
	}
	unix.CloseOnExec(fd)
	return fd, nil
}

// openAppend fails with ENXIO for a FIFO without a reader. Later writes block.
func openAppend(path string) (int, error) {
	const flags = unix.O_WRONLY | unix.O_APPEND | unix.O_CREAT |
		unix.O_CLOEXEC | unix.O_NOCTTY | unix.O_NONBLOCK
	fd, err := unix.Open(path, flags, 0o600)
	if err == nil {
		err = unix.SetNonblock(fd, false)
	}
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return fd, nil
}
