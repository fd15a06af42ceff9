// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package guard

import (
	"fmt"
	"os"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/page"
)

// A launcher that needs a Go runtime to start a server needs none to wait for its end. So with guard and
// group made, and with a main process that waits, it executes its own program again. That goes on before it
// has a runtime. Until then a signal ends the launcher, and so the start.

// HandoverVariable is the first one in the environment of the launcher after HandOver: the number of the
// page's file.
const HandoverVariable = "MCPSCOPE_HANDOVER="

// HandOver executes this program again, which goes on with Continue. It returns only if that fails. The main
// process waits in the group. payload is -1 in a tree; leaf is where the guard moves, or -1.
func (p *Preparation) HandOver(payload, leaf int, argv, env []string, of ClientSignals) error {
	if p.waiting < 0 {
		if _, errno := p.Prefork(payload); errno != 0 {
			return fmt.Errorf("fork the server: %w", errno)
		}
	}
	guards := &p.keeper.lasting
	h := &p.page.Handover
	h.Group = int32(payload)
	h.GuardLeaf = int32(leaf)
	h.Sock = int32(p.keeper.guard.Sock)
	h.PIDFD = int32(p.keeper.guard.PIDFD)
	h.Main = p.waiting
	h.MainPID = p.birth.child.pid
	h.Name = guards.name
	h.Near = guards.near
	h.Readable = guards.readable
	_ = unix.Prctl(unix.PR_GET_NAME, uintptr(unsafe.Pointer(&h.Comm)), 0, 0, 0) // it can't fail
	variable := fmt.Sprint(HandoverVariable, p.page.Memory)
	written, texts, errno := mapLists([][]string{argv, append([]string{variable}, env...)})
	if errno != 0 {
		return fmt.Errorf("execute mcpscope: %w", errno)
	}
	fds := slices.Concat(p.page.Descriptors(), h.Descriptors(), []int32{p.page.Memory})
	for _, fd := range fds {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0); err != nil && fd >= 0 {
			return fmt.Errorf("pass descriptor %d on: %w", fd, err)
		}
	}
	h.Blocked = of.Blocked
	h.Ignored = of.Ignored
	all := ^uint64(0)
	before := uint64(0)
	setMask(&all, &before)
	h.Launcher = int32(os.Getpid())
	errno = executeProgram(p.page.FD.Program, addressOf(written[0]), addressOf(written[1]))
	h.Launcher = 0
	setMask(&before, nil)
	for _, fd := range fds {
		unix.CloseOnExec(int(fd)) // EBADF for -1
	}
	sys(unix.SYS_MUNMAP, texts.at, texts.size, 0, 0, 0)
	return fmt.Errorf("execute mcpscope: %w", errno)
}

// Continue is the launcher after HandOver. It ends the process as the server ends. It returns where main has
// to do more, see Over; and false where there is nothing to go on with. env begins with HandoverVariable.
func (l *Launcher) Continue(memory int32, args, env []uintptr) bool {
	if !l.resume(memory) {
		return false
	}
	end := args[len(args)-1]
	for **(**byte)(unsafe.Pointer(&end)) != 0 {
		end++
	}
	l.keeper.lasting.hide = [2]uintptr{args[0], end}
	rest := addressOf(env) + unsafe.Sizeof(env[0]) // the other variables, or none
	l.keeper.lasting.prepareBrains(&l.brainName, rest)
	l.leaveClient()
	l.Signals.take()
	l.Signals.open()
	l.startWaiting()
	l.live()
	return true
}

// prepareBrains fills in the arguments of brains, and their environment.
func (l *lasting) prepareBrains(name *[24]byte, env uintptr) {
	n := copy(name[:], brainPrefix)
	copy(name[n:], l.name[len(guardPrefix):])
	l.argv[0] = uintptr(unsafe.Pointer(name))
	l.argv[1] = address(brainCommand)
	l.args = 2
	l.env = env
}

// resume takes over what HandOver has left on the page. The page is a secret: there may be other servers of
// this user.
func (l *Launcher) resume(memory int32) bool {
	score := openScore()
	sys(unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 0, 0, 0, 0) // it did not fail before the exec
	on, e := page.Map(memory)
	if e != 0 || on.Handover.Launcher != int32(unix.Getpid()) { // the client has set the variable
		closeFD(score)
		sys(unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 1, 0, 0, 0)
		return false
	}
	lowerScore(score)
	h := &on.Handover
	h.Launcher = 0
	l.attach(on)
	sys(unix.SYS_PRCTL, unix.PR_SET_NAME, uintptr(unsafe.Pointer(&h.Comm)), 0, 0, 0)
	l.group.payload = h.Group
	l.keeper.guard = page.Guard{Page: on, Sock: int(h.Sock), PIDFD: int(h.PIDFD)}
	guards := &l.keeper.lasting
	guards.name = h.Name
	guards.near = h.Near
	guards.readable = h.Readable
	l.Signals.Client = ClientSignals{Blocked: h.Blocked, Ignored: h.Ignored}
	l.Signals.terminal = h.Terminal
	for _, fd := range on.Descriptors() {
		closeOnExec(fd)
	}
	for _, fd := range h.Descriptors() {
		closeOnExec(fd)
	}
	closeOnExec(on.Memory)
	return true
}

func closeOnExec(fd int32) {
	if fd >= 0 {
		sys(unix.SYS_FCNTL, uintptr(fd), unix.F_SETFD, unix.FD_CLOEXEC, 0, 0)
	}
}

// startWaiting starts the main process that waits.
func (l *Launcher) startWaiting() {
	h := &l.page.Handover
	e := syscall.EMFILE
	if l.Signals.fd >= 0 {
		e = l.arm(h.GuardLeaf)
	}
	if e == 0 {
		waits := page.Guard{Sock: int(h.Main)}
		e = waits.Go(int(l.group.payload), -1)
	}
	if e == 0 {
		closeFD(h.Main)
	} else {
		forgetMain(h.Main, h.MainPID)
	}
	l.begin(h.MainPID, e)
}
