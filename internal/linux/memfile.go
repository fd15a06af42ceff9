// SPDX-License-Identifier: Apache-2.0

//go:build linux

package linux

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// largest is far beyond what a command line, which is the most of it, can be.
const largest = 64 << 20

// NewMemoryFile makes an empty file, close-on-exec, that is to hold so many bytes, and returns its descriptor.
// The name is for people who look at /proc/PID/fd. EFBIG: RLIMIT_FSIZE, which applies to memory as
// well, is smaller; a write would end the process by SIGXFSZ.
func NewMemoryFile(name string, size int) (int, error) {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_FSIZE, &limit) == nil && limit.Cur < uint64(size) {
		return -1, fmt.Errorf("create memory file of %d bytes: only %d are allowed (RLIMIT_FSIZE): %w", size, limit.Cur, unix.EFBIG)
	}
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("create memory file: %w", err)
	}
	return fd, nil
}

// WriteMemoryFile makes a file with these bytes, close-on-exec, and returns its descriptor. Where RLIMIT_FSIZE
// forbids the file it is the end of a pipe that holds them.
func WriteMemoryFile(b []byte) (int, error) {
	fd, err := NewMemoryFile("mcpscope", len(b))
	if err != nil {
		return writePipe(b, err)
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

// writePipe fails, for the reason why there is no file, where the bytes are more than a pipe can hold
// (/proc/sys/fs/pipe-max-size).
func writePipe(b []byte, why error) (int, error) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return -1, fmt.Errorf("create pipe: %w", err)
	}
	defer unix.Close(ends[1])
	_, _ = unix.FcntlInt(uintptr(ends[1]), unix.F_SETPIPE_SZ, max(len(b), 1)) // it may be large enough
	err := unix.SetNonblock(ends[1], true)
	n := 0
	if err == nil {
		n, err = unix.Write(ends[1], b)
	}
	if err != nil || n < len(b) {
		_ = unix.Close(ends[0])
		return -1, why
	}
	return ends[0], nil
}

// ReadMemoryFile returns all of what WriteMemoryFile has written, and closes it.
func ReadMemoryFile(fd int) ([]byte, error) {
	f := os.NewFile(uintptr(fd), "memory file")
	if f == nil {
		return nil, fmt.Errorf("read memory file: descriptor %d: %w", fd, unix.EBADF)
	}
	defer f.Close()
	var from io.Reader = io.NewSectionReader(f, 0, largest)
	if st, err := f.Stat(); err == nil && st.Mode()&os.ModeNamedPipe != 0 {
		from = f
	}
	b, err := io.ReadAll(from)
	if err != nil {
		return nil, fmt.Errorf("read memory file: %w", err)
	}
	return b, nil
}

// ReopenMemoryFile opens a memory file of a user once more, by its path below /proc/PID/fd. What is there may be
// anything that this user has opened: a file of somebody else's, a pipe, a file of a file system that
// hangs. So it is looked at before it is opened: a regular file of that user on the kernel's own mount,
// on which all memory files are and which nobody can reach by a path.
func ReopenMemoryFile(path string, uid int) (int, error) {
	at, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open memory file: %w", err)
	}
	defer unix.Close(at)
	mount, err := mount()
	if err != nil {
		return -1, err
	}
	var st unix.Statx_t
	// without asking the file system, which could be one in user space
	if err := unix.Statx(at, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_BASIC_STATS, &st); err != nil {
		return -1, fmt.Errorf("look at memory file: %w", err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || unix.Mkdev(st.Dev_major, st.Dev_minor) != mount || int(st.Uid) != uid {
		return -1, fmt.Errorf("open memory file: %s is none of user %d: %w", path, uid, unix.EINVAL)
	}
	fd, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", at), unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open memory file: %w", err)
	}
	return fd, nil
}

// mount is the device number of the mount that memory files are on.
func mount() (uint64, error) {
	fd, err := unix.MemfdCreate("", unix.MFD_CLOEXEC)
	if err != nil {
		return 0, fmt.Errorf("create memory file: %w", err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, fmt.Errorf("look at memory file: %w", err)
	}
	return st.Dev, nil
}
