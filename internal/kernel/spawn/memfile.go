// SPDX-License-Identifier: Apache-2.0

//go:build linux

package spawn

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// WriteMemoryFile makes a file with these bytes, close-on-exec, and returns its descriptor. It hands a process what is too long, or
// too private, for a command line.
func WriteMemoryFile(b []byte) (int, error) {
	fd, err := unix.MemfdCreate("mcpscope", unix.MFD_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("create memory file: %w", err)
	}
	for len(b) > 0 {
		n, err := unix.Write(fd, b)
		if err != nil && err != unix.EINTR {
			_ = unix.Close(fd)
			return -1, fmt.Errorf("write memory file: %w", err)
		}
		b = b[max(n, 0):]
	}
	return fd, nil
}

// largest is far beyond what a command line, which is the most of it, can be.
const largest = 64 << 20

// ReadMemoryFile returns all of what WriteMemoryFile has written, and closes it.
func ReadMemoryFile(fd int) ([]byte, error) {
	f := os.NewFile(uintptr(fd), "memory file")
	if f == nil {
		return nil, fmt.Errorf("read memory file: descriptor %d: %w", fd, unix.EBADF)
	}
	defer f.Close()
	b, err := io.ReadAll(io.NewSectionReader(f, 0, largest))
	if err != nil {
		return nil, fmt.Errorf("read memory file: %w", err)
	}
	return b, nil
}
