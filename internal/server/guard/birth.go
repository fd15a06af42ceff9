// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package guard

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/kernel/raw"
)

// startMain starts the main process in the group and returns when it executes the server, or can't.
func (p *process) startMain() {
	page := p.page
	p.clone = cloneArgs{flags: vforkFlags, exitSignal: uint64(unix.SIGCHLD)}
	if page.Payload >= 0 {
		p.clone.flags |= unix.CLONE_INTO_CGROUP
		p.clone.cgroup = uint64(page.Payload)
	}
	pid, errno := vfork(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&p.clone)), unsafe.Sizeof(p.clone))
	if errno == 0 && pid == 0 {
		p.executeServer(true)
	}
	if refused(errno) {
		pid, errno = vfork(unix.SYS_CLONE, vforkFlags|uintptr(unix.SIGCHLD), 0)
		if errno == 0 && pid == 0 {
			p.executeServer(page.Payload < 0)
		}
	}
	if errno != 0 {
		page.FailedStep, page.Errno = StepFork, uint32(errno)
		return
	}
	p.mainPID = int32(pid)
	page.MainPID = p.mainPID // it may be killed before it writes that
}

// executeServer is the main process, which borrows the guard's memory until its exec. The guard's signals are all blocked
// and have no handlers.
func (p *process) executeServer(joined bool) {
	m := &p.main
	pid, _ := raw.Sys(unix.SYS_GETPID, 0, 0, 0, 0, 0)
	p.page.MainPID = int32(pid) // here, because the server may stop the guard before it can write that
	if !joined {
		p.check(StepJoin, raw.WriteFile(p.page.Payload, procsFile, '0'))
	}
	_, e := raw.Sys(unix.SYS_SETPGID, 0, m.pgid, 0, 0, 0)
	p.check(StepProcessGroup, e)
	if m.limitsFiles { // the runtime has raised the launcher's
		_, e = raw.Sys(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_NOFILE, uintptr(unsafe.Pointer(&m.nofile)), 0, 0)
		p.check(StepLimits, e)
	}
	if m.limitsLocks {
		_, e = raw.Sys(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_LOCKS, uintptr(unsafe.Pointer(&m.locks)), 0, 0)
		p.check(StepLimits, e)
	}
	raw.SetMask(&m.mask)
	e = execute(m.path, m.argv, m.env)
	if e == syscall.ENOEXEC && m.shell != 0 {
		e = execute(m.shell, m.shellArgv, m.env)
	}
	p.check(StepExec, e)
}

// check ends the main process if the step has failed.
func (p *process) check(step Step, errno syscall.Errno) {
	if errno != 0 {
		p.page.FailedStep, p.page.Errno = step, uint32(errno)
		raw.Exit(125)
	}
}

func execute(path, argv, env uintptr) syscall.Errno {
	_, e := raw.Sys(unix.SYS_EXECVE, path, argv, env, 0, 0)
	return e
}
