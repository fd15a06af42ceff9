//go:build linux

// Package memfile hands bytes to a process that is about to be started, in a file that only
// memory has (memfd_create(2), Linux 3.17): it may be long, and no command line shows it.
package memfile

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// largest is far beyond what a command line, which is the most of it, can be.
const largest = 64 << 20

// Write makes a file, close-on-exec, and returns its descriptor.
func Write(b []byte) (int, error) {
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

// Read returns all of the file, and closes it.
func Read(fd int) ([]byte, error) {
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
