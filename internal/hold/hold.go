// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package hold starts copies of this process that do nothing, and end with it.
package hold

import (
	"fmt"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/raw"
)

// TryStart tells whether so many processes more can be started, by starting them: copies of this one, which end
// at once when all are there. Otherwise it returns how many there could be, and why not more.
func TryStart(n int) (started int, err error) {
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		return 0, fmt.Errorf("create pipe: %w", err)
	}
	end := &held{pipe: pipe[0], ours: pipe[1]}
	var pids []int
	for range n {
		syscall.ForkLock.Lock()
		pid, errno := forkHeld(end)
		syscall.ForkLock.Unlock()
		if errno != 0 {
			err = fmt.Errorf("fork: %w", errno)
			break
		}
		pids = append(pids, pid)
	}
	runtime.KeepAlive(end)
	_ = unix.Close(pipe[1]) // which the copies wait for
	_ = unix.Close(pipe[0])
	for _, pid := range pids {
		raw.Reap(pid)
	}
	return len(pids), err
}

// held is what a copy needs.
type held struct {
	pipe, ours int
	buf        [1]byte
}

// forkHeld comes back in the caller alone.
//
//go:noinline
//go:norace
//go:nocheckptr
func forkHeld(h *held) (int, syscall.Errno) {
	raw.BeforeFork()
	pid, _, errno := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 || pid != 0 {
		raw.AfterFork()
		return int(pid), errno
	}
	hold(h)
	return 0, 0 // not reached
}

// hold waits for the end of the pipe, with all signals blocked.
//
//go:nosplit
//go:norace
func hold(h *held) {
	_, _, _ = syscall.RawSyscall(syscall.SYS_CLOSE, uintptr(h.ours), 0, 0)
	for {
		n, _, e := syscall.RawSyscall(syscall.SYS_READ, uintptr(h.pipe), uintptr(unsafe.Pointer(&h.buf)), 1)
		if n == 0 && e == 0 || e != 0 && e != syscall.EINTR {
			raw.Exit(0)
		}
	}
}
