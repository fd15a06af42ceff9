// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package spawn starts processes that inherit descriptors under their own numbers: the configuration of a process names them.
package spawn

import (
	"fmt"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// Start starts a process with exactly this environment. It inherits the descriptors 0 to 2 and keep, in spite of close-on-exec.
// The signal mask and RLIMIT_NOFILE are those that the caller was started with. The caller reaps the process.
func Start(path string, argv, env []string, keep []int, how *syscall.SysProcAttr) (pid int, err error) {
	keep = append([]int{0, 1, 2}, keep...)
	files := slices.Repeat([]uintptr{^uintptr(0)}, slices.Max(keep)+1) // closed in the new process
	for _, fd := range keep {
		files[fd] = uintptr(fd)
	}
	program, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("open program %q: %w", path, err)
	}
	defer unix.Close(program)
	// path may name a descriptor that is closed before the exec. ForkExec uses the first number beyond files, and one more.
	const used = 2
	beyond, err := unix.FcntlInt(uintptr(program), unix.F_DUPFD_CLOEXEC, len(files)+used)
	if err != nil {
		return 0, fmt.Errorf("duplicate descriptor of %q: %w", path, err)
	}
	defer unix.Close(beyond)
	pid, err = syscall.ForkExec(fmt.Sprintf("/proc/self/fd/%d", beyond), argv, &syscall.ProcAttr{Env: env, Files: files, Sys: how})
	if err != nil {
		return 0, fmt.Errorf("execute %q: %w", path, err)
	}
	return pid, nil
}
