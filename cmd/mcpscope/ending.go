// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/kernel/linux"
)

// endBySignal ends this process by the signal that ended the server, so that the client gets the same wait
// status. The kernel does not kill PID 1 of a container by its own signals; there the status is that of a
// shell.
func endBySignal(sig unix.Signal) int {
	status := cli.ExitSignalBase + int(sig)
	if os.Getpid() == 1 {
		return status
	}
	runtime.LockOSThread()
	// prevent a second core dump; with a pipe in core_pattern the limit alone is not enough
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}) // never fails to lower
	// by a system call: signal.Reset would put back the Go runtime's own handlers
	new(linux.Action).Set(sig)
	var set unix.Sigset_t
	const bits = unix.Signal(unsafe.Sizeof(set.Val[0])) * 8 // 32 or 64, as the processor has it
	set.Val[(sig-1)/bits] |= 1 << ((sig - 1) % bits)
	_ = unix.PthreadSigmask(unix.SIG_UNBLOCK, &set, nil)
	// to this thread, so that it arrives before the call returns
	_ = unix.Tgkill(os.Getpid(), unix.Gettid(), sig)
	return status // the signal did not end this process
}
