// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package guard

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/page"
)

// forkBetween makes the guard by a process between, which exits at once, so that the guard is in no process
// tree of the client. That process shares the caller's descriptors, so that the guard's pidfd is opened
// there.
//
// All signals are blocked: a handler of the runtime in a process that borrows its memory would destroy it.
// That the function has no preemption point keeps it on its thread.
//
//go:noinline
//go:nosplit
func forkBetween(p *process) syscall.Errno {
	all, before := ^uint64(0), uint64(0)
	setMask(&all, &before)
	pid := vfork(unix.SYS_CLONE, vforkFlags|unix.CLONE_FILES, 0)
	if pid == 0 {
		forkGuard(p)
	}
	if pid > 0 {
		sys(unix.SYS_WAIT4, uintptr(pid), 0, unix.WALL, 0, 0) // no signal interrupts it
		pid = int(p.pid)
	}
	setMask(&before, nil)
	return syscall.Errno(-min(pid, 0))
}

// InThread has a second thread call f, which may execute a program, while the first one waits.
//
//go:noinline
//go:nosplit
func InThread(f func()) {
	const shared = unix.CLONE_SIGHAND | unix.CLONE_FILES | unix.CLONE_FS | unix.CLONE_SYSVSEM
	if vfork(unix.SYS_CLONE, vforkFlags|unix.CLONE_THREAD|shared, 0) == 0 {
		f()
		sys(unix.SYS_EXIT, 0, 0, 0, 0, 0) // of the thread; it does not return
	}
}

// forkGuard is all that the process between does.
//
//go:nosplit
func forkGuard(p *process) {
	sys(unix.SYS_SETPGID, 0, 0, 0, 0, 0) // the client may kill its process group
	into := &p.clone
	if p.page.Leaf < 0 {
		into.flags &^= unix.CLONE_INTO_CGROUP
	}
	into.cgroup = uint64(p.page.Leaf)
	at, size := uintptr(unsafe.Pointer(into)), unsafe.Sizeof(*into)
	pid := forkOn(unix.SYS_CLONE3, at, size, 0, 0, 0, p, &p.g)
	// Seccomp may refuse clone3. Then clone(2) starts the process, which joins the cgroup before it does
	// anything else.
	if pid == -int(syscall.ENOSYS) || pid == -int(syscall.EPERM) {
		const flags = unix.CLONE_SETTLS | unix.CLONE_PIDFD | uintptr(unix.SIGCHLD)
		tls := uintptr(into.tls) // the fourth argument on arm64, the fifth on amd64; the other is not used
		p.joins = true
		top := uintptr(into.stack + into.stackSize)
		pid = forkOn(unix.SYS_CLONE, flags, top, uintptr(into.pidfd), tls, tls, p, &p.g)
	}
	p.pid = int32(pid)
	exit(0)
}

// startMain starts the main process in the group and returns when it executes the server, or can't.
func (p *process) startMain() {
	pid := p.spawn(p.page.Payload, false)
	if pid < 0 {
		p.page.FailedStep, p.page.Errno = page.StepFork, uint32(-pid)
		return
	}
	p.mainPID = int32(pid)
	p.page.MainPID = p.mainPID // it may be killed before it writes that
}

// spawn starts the main process or a later brain in a cgroup. It borrows the guard's memory until its exec.
// The guard's signals are all blocked and have no handlers.
func (p *process) spawn(into int32, brain bool) (pid int) {
	if p.joins {
		pid = vfork(unix.SYS_CLONE, vforkFlags|uintptr(unix.SIGCHLD), 0)
	} else {
		p.clone = cloneArgs{flags: vforkFlags, exitSignal: uint64(unix.SIGCHLD)}
		if into >= 0 {
			p.clone.flags |= unix.CLONE_INTO_CGROUP
			p.clone.cgroup = uint64(into)
		}
		pid = vfork(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&p.clone)), unsafe.Sizeof(p.clone))
	}
	if pid == 0 {
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
	return pid
}

// executeServer is the main process until its exec.
func (p *process) executeServer() {
	m := &p.main
	pid, _ := sys(unix.SYS_GETPID, 0, 0, 0, 0, 0)
	p.page.MainPID = int32(pid) // here, because the server may stop the guard before it can write that
	_, e := sys(unix.SYS_SETPGID, 0, m.pgid, 0, 0, 0)
	p.check(page.StepProcessGroup, e)
	if m.stderr != 0 {
		sys(unix.SYS_DUP3, m.stderr, 2, 0, 0, 0) // both are open, so it can't fail
	}
	_, e = sys(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_NOFILE, uintptr(unsafe.Pointer(&m.nofile)), 0, 0)
	p.check(page.StepLimits, e)
	_, e = sys(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_LOCKS, uintptr(unsafe.Pointer(&m.locks)), 0, 0)
	p.check(page.StepLimits, e)
	setMask(&m.mask, nil)
	_, e = sys(unix.SYS_EXECVE, m.path, m.argv, m.env, 0, 0)
	if e == syscall.ENOEXEC {
		_, e = sys(unix.SYS_EXECVE, m.shell, m.shellArgv, m.env, 0, 0)
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
