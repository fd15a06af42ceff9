// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package guard

import (
	"fmt"
	"os"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/page"
)

// Raw code alone starts a server. Where it needs main for that, since there are settings, a manager or a
// process tree, main fills in a plan, and executes its own program again.

// PlanVariable is the first one in the environment of a launcher with a plan: the number of the page's file,
// and behind a blank the path of the server's program.
const PlanVariable = "MCPSCOPE_PLAN="

// ExecutePlan executes this program again, which performs the plan before it has a Go runtime: see
// Start.Execute. It returns only if that fails. variables are the environment; with PlanVariable, the first
// on.Plan.Vectors.Variables of them are not the server's.
func ExecutePlan(on *page.Page, path string, argv, variables []string, of ClientSignals) error {
	plan := &on.Plan
	_ = unix.Prctl(unix.PR_GET_NAME, uintptr(unsafe.Pointer(&plan.Comm)), 0, 0, 0) // it can't fail
	variable := fmt.Sprintf("%s%d %s", PlanVariable, on.Memory, path)
	written, texts, errno := mapLists([][]string{argv, append([]string{variable}, variables...)})
	if errno != 0 {
		return fmt.Errorf("execute mcpscope: %w", errno)
	}
	fds := append(slices.Clone(on.Descriptors()), on.Memory)
	if plan.Stderr > 0 {
		fds = append(fds, plan.Stderr)
	}
	for _, fd := range fds {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0); err != nil && fd >= 0 {
			return fmt.Errorf("pass descriptor %d on: %w", fd, err)
		}
	}
	plan.Signals.Blocked = of.Blocked
	plan.Signals.Ignored = of.Ignored
	all := ^uint64(0)
	before := uint64(0)
	setMask(&all, &before)
	plan.Launcher = int32(os.Getpid())
	errno = executeProgram(on.FD.Program, addressOf(written[0]), addressOf(written[1]))
	plan.Launcher = 0
	setMask(&before, nil)
	for _, fd := range fds {
		unix.CloseOnExec(int(fd)) // EBADF for -1
	}
	sys(unix.SYS_MUNMAP, texts.at, texts.size, 0, 0, 0)
	return fmt.Errorf("execute mcpscope: %w", errno)
}

// Execute performs the plan of main on a page. It ends the process as the server ends. It returns true where
// main has to do more: see Launcher.Over. It returns false where there is no such plan, and where it has
// failed: see Launcher.Failed. args and env are those of this process.
func (p *Start) Execute(l *Launcher, memory int32, args, env []uintptr) bool {
	if !p.resume(l, memory, args, env) {
		return false
	}
	if !p.perform(l) {
		p.undo(l)
		l.Failed = p.page
		sys(unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 1, 0, 0, 0)
		l.Signals.Client.Restore()
		return false
	}
	if p.page.Plan.HidesArguments {
		p.hideArguments()
	}
	l.leaveClient()
	own := uintptr(unsafe.Pointer(p))
	freePages(own, own+unsafe.Sizeof(*p))
	l.live()
	return true
}

// resume takes over what main has left on the page. The page is a secret: there may be other servers of
// this user.
func (p *Start) resume(l *Launcher, memory int32, args, env []uintptr) bool {
	p.score = openScore()
	sys(unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 0, 0, 0, 0) // it did not fail before the exec
	on, e := page.Map(memory)
	if e != 0 || on.Plan.Launcher != int32(unix.Getpid()) { // the client has set the variable
		closeFD(p.score)
		sys(unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 1, 0, 0, 0)
		return false
	}
	plan := &on.Plan
	plan.Launcher = 0
	p.page = on
	l.attach(on)
	sys(unix.SYS_PRCTL, unix.PR_SET_NAME, uintptr(unsafe.Pointer(&plan.Comm)), 0, 0, 0)
	l.Signals.Client = ClientSignals{Blocked: plan.Signals.Blocked, Ignored: plan.Signals.Ignored}
	l.Signals.take()
	p.id = plan.ID
	c := &p.Command
	c.Args = args[min(int(plan.Vectors.Command), len(args)-1):]
	c.Env = env[min(int(plan.Vectors.Variables), len(env)):]
	on.Order.Foreign = HasChildren()
	for _, fd := range on.Descriptors() {
		closeOnExec(fd)
	}
	closeOnExec(on.Memory)
	if plan.Stderr > 0 {
		closeOnExec(plan.Stderr)
	}
	return true
}

func closeOnExec(fd int32) {
	if fd >= 0 {
		sys(unix.SYS_FCNTL, uintptr(fd), unix.F_SETFD, unix.FD_CLOEXEC, 0, 0)
	}
}

// hideArguments overwrites those of the server in the command line of this process: the journal stores that
// of each process that writes to it, and arguments may be secrets.
func (p *Start) hideArguments() {
	for _, addr := range p.Command.Args[1:] {
		for **(**byte)(unsafe.Pointer(&addr)) != 0 {
			**(**byte)(unsafe.Pointer(&addr)) = 0
			addr++
		}
	}
}
