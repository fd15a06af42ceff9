// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package guard

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/page"
)

// startMain starts the main process in the group and returns when it executes the server, or can't.
func (p *process) startMain() {
	pid, errno := p.spawn(p.page.Payload, false)
	if errno != 0 {
		p.page.FailedStep, p.page.Errno = page.StepFork, uint32(errno)
		return
	}
	p.mainPID = int32(pid)
	p.page.MainPID = p.mainPID // it may be killed before it writes that
}

// spawn starts the main process or a later brain in a cgroup. It borrows the guard's memory until its exec.
// The guard's signals are all blocked and have no handlers.
func (p *process) spawn(into int32, brain bool) (pid, errno uintptr) {
	if p.joins {
		pid, errno = vfork(unix.SYS_CLONE, vforkFlags|uintptr(unix.SIGCHLD), 0)
	} else {
		p.clone = cloneArgs{flags: vforkFlags, exitSignal: uint64(unix.SIGCHLD)}
		if into >= 0 {
			p.clone.flags |= unix.CLONE_INTO_CGROUP
			p.clone.cgroup = uint64(into)
		}
		pid, errno = vfork(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&p.clone)), unsafe.Sizeof(p.clone))
	}
	if errno == 0 && pid == 0 {
		e := syscall.Errno(0)
		if p.joins && into >= 0 {
			e = writeFile(into, procsFile, '0')
		}
		if brain {
			p.executeBrain()
		}
		p.check(page.StepJoin, e)
		p.executeServer()
	}
	return pid, errno
}

// executeServer is the main process until its exec.
func (p *process) executeServer() {
	m := &p.main
	pid, _ := sys(unix.SYS_GETPID, 0, 0, 0, 0, 0)
	p.page.MainPID = int32(pid) // here, because the server may stop the guard before it can write that
	_, e := sys(unix.SYS_SETPGID, 0, m.pgid, 0, 0, 0)
	p.check(page.StepProcessGroup, e)
	if m.limitsFiles { // the runtime has raised the launcher's
		_, e = sys(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_NOFILE, uintptr(unsafe.Pointer(&m.nofile)), 0, 0)
		p.check(page.StepLimits, e)
	}
	if m.limitsLocks {
		_, e = sys(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_LOCKS, uintptr(unsafe.Pointer(&m.locks)), 0, 0)
		p.check(page.StepLimits, e)
	}
	setMask(&m.mask)
	e = execute(m.path, m.argv, m.env)
	if e == syscall.ENOEXEC && m.shell != 0 {
		e = execute(m.shell, m.shellArgv, m.env)
	}
	p.check(page.StepExec, e)
}

// check ends the main process if the step has failed.
func (p *process) check(step page.Step, errno syscall.Errno) {
	if errno != 0 {
		p.page.FailedStep, p.page.Errno = step, uint32(errno)
		exit(125)
	}
}

func execute(path, argv, env uintptr) syscall.Errno {
	_, e := sys(unix.SYS_EXECVE, path, argv, env, 0, 0)
	return e
}
