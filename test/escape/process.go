// SPDX-License-Identifier: Apache-2.0

package escape

import (
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/pace"
)

// A Process is held by its pidfd, so that its pid can't come to mean another.
type Process struct {
	PID int
	fd  int
}

// OpenProcess takes hold of a process that can't be reaped meanwhile.
func OpenProcess(pid int) (*Process, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, os.NewSyscallError("pidfd_open", err)
	}
	return &Process{PID: pid, fd: fd}, nil
}

// ParentProcess takes hold of the parent of a process that lives.
func ParentProcess(p *Process) (*Process, error) {
	pid, err := ParentOf(p.PID)
	if err != nil {
		return nil, err
	}
	parent, err := OpenProcess(pid)
	if err != nil {
		return nil, err
	}
	if again, err := ParentOf(p.PID); again != pid || err != nil || p.Ended(0) {
		parent.Close()
		return nil, fmt.Errorf("%d was the parent of %d, and is not any more", pid, p.PID)
	}
	return parent, nil
}

func (p *Process) Close() { unix.Close(p.fd) }

// Ended waits until the process has exited, reaped or not.
func (p *Process) Ended(limit time.Duration) bool {
	return PollFor(limit, unix.PollFd{Fd: int32(p.fd), Events: unix.POLLIN})
}

// WantEnded fails the test for each process that is left when Patience is over.
func WantEnded(t testing.TB, all ...*Process) {
	t.Helper()
	for _, p := range all {
		if !p.Ended(Patience) {
			t.Errorf("left: %s", Describe(p.PID))
		}
	}
}

// Signal does nothing to a process that has ended.
func (p *Process) Signal(sig syscall.Signal) {
	_ = unix.PidfdSendSignal(p.fd, sig, nil, 0)
}

// PollFor waits until one of the descriptors is ready, at most for limit on the clock of package pace, which
// goes on once a second.
func PollFor(limit time.Duration, fds ...unix.PollFd) bool {
	deadline := pace.Now().Add(limit)
	for {
		ts := unix.NsecToTimespec(int64(pace.Step(deadline)))
		n, err := unix.Ppoll(fds, &ts, nil)
		if n > 0 || err != nil && err != unix.EINTR || pace.Until(deadline) <= 0 {
			return n > 0
		}
	}
}

// WriteProgram writes a file that processes execute. A child of this process that is forked meanwhile would
// have the file open for writing, and then no process can execute it (ETXTBSY).
func WriteProgram(file, text string) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(file, []byte(text), 0o755)
}

// OpenDir is a directory that any user may write. Its path is short: there may be sockets in it.
func OpenDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "open.")
	if err == nil {
		err = os.Chmod(dir, 0o777)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // in the temporary directory
	return dir
}
