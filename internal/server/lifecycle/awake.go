// SPDX-License-Identifier: Apache-2.0

//go:build linux

package lifecycle

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/spawn"
)

// A member may stop its parent, the supervisor, and a stopped process can't notice
// anything. But SIGCONT acts when it is sent, and the kernel can be made to send it.

// ContinuedBy makes the kernel continue this process whenever something arrives at fd
// or its other end is closed (fcntl(2), F_SETSIG): every word of the launcher, and its
// death, wakes a supervisor that was stopped. To one that runs, SIGCONT is nothing.
// It tells whether the other end is closed already, of which the kernel tells nobody any more.
func ContinuedBy(fd int) (closed bool, err error) {
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETOWN, os.Getpid()); err != nil {
		return false, fmt.Errorf("own signals of the control socket: %w", err)
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETSIG, int(unix.SIGCONT)); err != nil {
		return false, fmt.Errorf("choose the signal of the control socket: %w", err)
	}
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_SETFL, flags|unix.O_ASYNC)
	}
	if err != nil {
		return false, fmt.Errorf("ask for signals of the control socket: %w", err)
	}
	peer := []unix.PollFd{{Fd: int32(fd)}}
	_, err = unix.Poll(peer, 0)
	return err == nil && peer[0].Revents&unix.POLLHUP != 0, nil
}

const (
	awakeEvery = 10 * time.Millisecond // between two wakes
	awakeTimes = 32                    // wakes in a row: a member may stop us again each time
)

// StayAwake makes the kernel continue this process many times: from now on, for the
// asking, and when grace is over, for the kill. It is for a supervisor without a launcher,
// which nobody else wakes before the next sweep. Each wake has a timer of its own
// (timer_create(2)): an interval timer goes on only when its signal has been delivered, and
// a SIGCONT that merely continues a process never is.
func StayAwake(grace time.Duration) {
	for i := range time.Duration(awakeTimes) {
		continueAfter((i + 1) * awakeEvery)
		if grace > 0 {
			continueAfter(grace + i*awakeEvery)
		}
	}
}

// continueAfter is best effort: a sweeper looks after a stopped supervisor as well.
func continueAfter(d time.Duration) { spawn.ContinueAfter(unix.NsecToTimespec(d.Nanoseconds())) }

// KeepTracersOff keeps processes of our user from tracing this one, and from taking its descriptors
// (ptrace(2), pidfd_getfd(2)): a tracer could hold it where no signal wakes it, and with the control socket
// say what the other side believes. Root may do both.
func KeepTracersOff() error {
	return os.NewSyscallError("prctl PR_SET_DUMPABLE", unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0))
}
