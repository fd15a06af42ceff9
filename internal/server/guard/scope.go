// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package guard

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/page"
)

// In a login session no process can be born in a scope: only the manager may move one there. It is asked by
// main, in a process of its own, which ends before the server runs.

// ScopeCommand is how main is called for that. Three numbers follow: of the page's file, of the guard's
// pidfd, and the pid of the main process, which waits.
const ScopeCommand = "scope"

// scopeCall is the command line of that process.
type scopeCall struct {
	argv   [6]uintptr
	digits [3][11]byte
}

// awaitScope has main make the group. It returns false if that can't: then the plan says why. A signal that
// ends a server ends this process, while no server runs.
func (p *Start) awaitScope(l *Launcher) bool {
	waiting, e := p.birth.prefork()
	p.waiting = waiting
	if e != 0 {
		return p.fails(page.StepFork, e)
	}
	numbers := [3]int{int(p.page.Memory), l.keeper.guard.PIDFD, int(p.birth.child.pid)}
	call := &p.scope
	call.argv[0] = address("mcpscope\x00")
	call.argv[1] = address(ScopeCommand + "\x00")
	for i, number := range numbers {
		call.argv[2+i] = decimal(&call.digits[i], number)
	}
	pid := p.forkScopeCall(l)
	if pid < 0 {
		return p.fails(page.StepFork, syscall.Errno(-pid))
	}
	sig := l.Signals.awaitChild(pid, p.birth.child.pid, &l.group.buf)
	var status uint32
	sys(unix.SYS_WAIT4, uintptr(pid), uintptr(unsafe.Pointer(&status)), 0, 0, 0)
	if sig != 0 {
		p.undo(l)
		ExitBy(uintptr(sig))
	}
	if status != 0 {
		return p.fails(page.StepScope, syscall.ECHILD)
	}
	return true
}

// goOn has the main process that waits go on, in the payload.
func goOn(p *Start) {
	sendWord(p.waiting, page.WordGo)
	closeFD(p.waiting)
	p.waiting = -1
}

// forgetMain reaps a main process that has waited, and does not start: it exits when its socket is closed.
func forgetMain(p *Start) {
	if p.waiting <= 0 {
		return
	}
	closeFD(p.waiting)
	p.waiting = -1
	if p.birth.child.pid > 0 {
		sys(unix.SYS_WAIT4, uintptr(p.birth.child.pid), 0, 0, 0, 0)
	}
}

// forkScopeCall starts the process, which does not outlive this one.
//
//go:noinline
func (p *Start) forkScopeCall(l *Launcher) (pid int) {
	argv := uintptr(unsafe.Pointer(&p.scope.argv))
	env := addressOf(p.Command.Env)
	mask := l.Signals.Client.Blocked
	pid = vfork(unix.SYS_CLONE, vforkFlags|uintptr(unix.SIGCHLD), 0)
	if pid == 0 {
		sys(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0)
		sys(unix.SYS_SETPGID, 0, 0, 0, 0, 0) // the keys of a terminal are for the server
		sys(unix.SYS_FCNTL, uintptr(p.page.Memory), unix.F_SETFD, 0, 0, 0)
		sys(unix.SYS_FCNTL, uintptr(l.keeper.guard.PIDFD), unix.F_SETFD, 0, 0, 0)
		setMask(&mask, nil)
		executeProgram(p.page.FD.Program, argv, env)
		exit(125)
	}
	return pid
}

// awaitChild waits for the end of a child, or until a signal ends a server: then it kills the child, and
// returns the signal. A main process that waits gets the others when it starts, each once: it blocks them,
// and may have got one that a terminal has sent.
func (s *Signals) awaitChild(pid int, main int32, buf *[512]byte) (sig unix.Signal) {
	ended, _ := sys(unix.SYS_PIDFD_OPEN, uintptr(pid), 0, 0, 0, 0)
	polls := [2]unix.PollFd{
		{Fd: int32(ended), Events: unix.POLLIN},
		{Fd: s.fd, Events: unix.POLLIN},
	}
	for polls[0].Revents == 0 && sig == 0 {
		sys(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&polls)), uintptr(len(polls)), 0, 0, 0)
		n := s.receive(buf)
		for i := uintptr(0); i < n; i += signalfdRecord {
			got := unix.Signal(buf[i&(uintptr(len(buf))-1)])
			bit := uint64(1) << (uint64(got-1) & 63)
			isTerminals := s.terminal && bit&ofTerminal != 0
			switch {
			case got == unix.SIGCHLD || isOfRuntime(buf, i):
			case bit&ending != 0 && !isTerminals:
				sig = got
			default:
				signalChild(main, got)
			}
		}
	}
	if sig != 0 {
		signalChild(int32(pid), unix.SIGKILL)
	}
	closeFD(int32(ended))
	return sig
}
