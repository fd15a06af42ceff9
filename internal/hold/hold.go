// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package hold starts copies of this process that do nothing, and end with it.
package hold

import (
	"fmt"
	"math"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/raw"
)

// TryStart reports whether so many processes more can be started, by starting them: copies of this process, which end
// at once when all are there. Otherwise it returns how many there could be, and why not more.
func TryStart(n int) (started int, err error) {
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		return 0, fmt.Errorf("create pipe: %w", err)
	}
	end := &held{pipe: pipe[0], ours: pipe[1], procs: -1}
	var pids []int
	for range n {
		pid, held := end.start()
		if held != nil {
			err = held
			break
		}
		pids = append(pids, pid)
	}
	_ = unix.Close(pipe[1]) // which the copies wait for
	_ = unix.Close(pipe[0])
	for _, pid := range pids {
		raw.Reap(pid)
	}
	return len(pids), err
}

// Held is a copy of this process in a group, which does nothing there and ends with the caller. No signal but SIGKILL and
// SIGSTOP reaches it, and it keeps nothing open.
type Held struct {
	PID   int
	PIDFD int
	end   int // of a pipe, whose other end it waits at
}

// In starts one.
func In(in raw.Group) (*Held, error) {
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		return nil, fmt.Errorf("create pipe: %w", err)
	}
	defer unix.Close(pipe[0])
	procs, err := in.OpenProcs()
	if err != nil {
		_ = unix.Close(pipe[1])
		return nil, err
	}
	defer unix.Close(procs)
	h := &held{pipe: pipe[0], ours: pipe[1], group: in.FD(), procs: procs, alone: true}
	pid, err := h.start()
	if err != nil {
		_ = unix.Close(pipe[1])
		return nil, err
	}
	held := &Held{PID: pid, end: pipe[1]}
	if held.PIDFD, err = unix.PidfdOpen(pid, 0); err != nil {
		held.PIDFD = -1
		held.End()
		return nil, fmt.Errorf("open pidfd: %w", err)
	}
	return held, nil
}

// End returns when it has ended, frozen or not.
func (h *Held) End() {
	_ = unix.PidfdSendSignal(h.PIDFD, unix.SIGKILL, nil, 0) // it may have been killed already
	_ = unix.Close(h.PIDFD)
	_ = unix.Close(h.end)
	raw.Reap(h.PID)
}

// held is the state that a copy needs.
type held struct {
	pipe, ours int
	group      int // that it is born in
	procs      int // of that, or -1
	alone      bool
	buf        [1]byte
}

func (h *held) start() (pid int, err error) {
	syscall.ForkLock.Lock()
	pid, errno := forkHeld(h)
	syscall.ForkLock.Unlock()
	runtime.KeepAlive(h)
	if errno != 0 {
		return 0, fmt.Errorf("fork: %w", errno)
	}
	return pid, nil
}

// forkHeld comes back in the caller alone.
//
//go:noinline
//go:norace
//go:nocheckptr
func forkHeld(h *held) (int, syscall.Errno) {
	joined := true
	var pid uintptr
	var errno syscall.Errno
	raw.BeforeFork()
	if h.procs >= 0 {
		pid, joined, errno = raw.CopyInto(h.group)
	} else {
		pid, _, errno = syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	}
	if errno != 0 || pid != 0 {
		raw.AfterFork()
		return int(pid), errno
	}
	hold(h, joined)
	return 0, 0 // not reached
}

// hold waits for the end of the pipe, with all signals blocked.
//
//go:nosplit
//go:norace
func hold(h *held, joined bool) {
	if !joined && raw.Enter(h.procs) != 0 {
		raw.Exit(1)
	}
	_, _, _ = syscall.RawSyscall(syscall.SYS_CLOSE, uintptr(h.ours), 0, 0)
	if h.alone {
		if h.pipe > 0 {
			raw.CloseAll(0, uint(h.pipe)-1)
		}
		raw.CloseAll(uint(h.pipe)+1, math.MaxInt32)
	}
	for {
		n, _, e := syscall.RawSyscall(syscall.SYS_READ, uintptr(h.pipe), uintptr(unsafe.Pointer(&h.buf)), 1)
		if n == 0 && e == 0 || e != 0 && e != syscall.EINTR {
			raw.Exit(0)
		}
	}
}
