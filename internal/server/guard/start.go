// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package guard

import (
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/page"
)

// Start is the start of a server: of a plain run, or by a plan of main (Execute). All its memory is here,
// since there is no heap.
type Start struct {
	Command Command

	page     *page.Page
	birth    *birth
	waiting  int32 // the socket of a main process that waits; 0 or -1 for none
	score    int32 // the file of its own
	id       [idLength]byte
	dir      [page.DirectoryMost]byte // of the group in a plain run
	variable [24]byte                 // MCPSCOPE_ID
	env      [envMost]uintptr
	scope    scopeCall
	buf      [512]byte
}

// Command is the command line of a launcher. The words are as the kernel has put them, with a 0 behind the
// last one.
type Command struct {
	Args []uintptr  // the server's. In front of them there are two other words at least
	Env  []uintptr  // the server's
	Path uintptr    // the file to execute
	Hide [2]uintptr // as Options.Hide
}

// perform forks the guard, makes the group, and starts the server in it. If it returns false, nothing of the
// server runs, and the plan says why.
func (p *Start) perform(l *Launcher) bool { return p.prepareForks(l) && p.startServer(l) }

// prepareForks fills in the memory of guard and main process.
func (p *Start) prepareForks(l *Launcher) bool {
	if p.score < 0 {
		p.score = openScore()
	}
	if _, e := sys(unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 0, 0, 0, 0); e != 0 {
		return p.fails(page.StepGuard, e)
	}
	addr, e := mapChild(unsafe.Sizeof(birth{}), roleMain)
	if e != 0 {
		return p.fails(page.StepFork, e)
	}
	p.birth = *(**birth)(unsafe.Pointer(&addr))
	p.fillBirth(&l.Signals)
	guards := &l.keeper.lasting
	n := copy(guards.name[:], guardPrefix)
	copy(guards.name[n:], p.id[:])
	guards.hide = p.Command.Hide
	guards.readable = p.page.Plan.Place.IsTree // a tree has nothing else that could be listed
	guards.prepareHelpers(addressOf(p.Command.Env))
	guards.near = unix.Getpid() == 1 || !initReaps(p.page, &p.buf) // PID 1 gets each orphan
	guards.keepsLeader = !l.Signals.shared
	p.page.ByHelper.CallHelperAt = now()
	if !p.page.Order.Replaces {
		p.page.ByHelper.CallHelperAt += settleAfter
	}
	return true
}

func (p *Start) startServer(l *Launcher) bool {
	plan := &p.page.Plan
	none := Gate{}
	guard, e := l.keeper.lasting.fork(p.page, &none, false)
	l.keeper.guard = guard
	if e != 0 {
		return p.fails(page.StepGuard, e)
	}
	p.chooseGroup(&l.keeper.lasting)
	e = l.Signals.open()
	if e != 0 {
		return p.fails(page.StepGuard, e)
	}
	if plan.Place.InScope && !p.awaitScope(l) {
		return false
	}
	if !plan.Place.IsTree {
		l.group.payload, e = p.makeGroup()
		if e != 0 {
			plan.Failed.Errno = uint32(e)
			return false
		}
	}
	e = l.arm()
	if e != 0 {
		return p.fails(page.StepGuard, e)
	}
	missed := uint64(0)
	if l.Signals.terminal && !plan.Place.InScope { // a main process that waits has got them
		missed = ofTerminalNow()
	}
	if plan.Place.InScope {
		goOn(p)
	} else if e = p.birth.start(l.group.payload); e == 0 {
		closeFD(p.birth.child.pidfd)
	}
	p.reapLeader(&l.keeper.lasting)
	l.begin(p.birth.child.pid, e)
	for sig := unix.Signal(1); sig <= 64 && e == 0; sig++ {
		if missed&(1<<(uint64(sig-1)&63)) != 0 {
			l.children.signalMain(sig)
		}
	}
	if p.page.ByLauncher.FailedStep == page.StepNone { // otherwise main starts the server, with that score
		lowerScore(p.score)
		p.score = -1
		p.birth.child.unmap() // a main process that has waited has its own copy, and may still fail
	}
	return true
}

// chooseGroup has the main process join a process group that a process has led which has ended. As below its
// client it is no leader, and may call setsid(2). In the foreground of a terminal it is in the client's.
func (p *Start) chooseGroup(guards *lasting) {
	if !guards.keepsLeader || p.birth.state.pgid != 0 {
		return
	}
	if guards.leader == 0 { // the guard is a child of this process
		guards.leader = forkLeader()
	}
	p.birth.state.pgid = uintptr(max(guards.leader, 0)) // without another process it leads its own
}

// reapLeader is for a main process that has joined the group of that leader, or does not start.
func (p *Start) reapLeader(guards *lasting) {
	reapLeader(guards.leader)
	guards.leader = 0
	guards.keepsLeader = false
}

// fails records why the server can't be started, and returns false.
func (p *Start) fails(step page.Step, e syscall.Errno) bool {
	p.page.Plan.Failed.Step = step
	p.page.Plan.Failed.Errno = uint32(e)
	return false
}

// fillBirth prepares the main process.
func (p *Start) fillBirth(signals *Signals) {
	b := p.birth
	c := &p.Command
	b.page = p.page
	b.launcher = int32(unix.Getpid())
	b.payload = -1
	b.sock = -1
	b.sends = -1
	b.program = program{
		path: c.Path, argv: addressOf(c.Args), env: p.environment(), shell: address("/bin/sh\x00"),
	}
	b.own.find(b.program.env, unix.Getpid())
	b.state.mask = signals.Client.Blocked
	b.state.ignores = signals.Client.Ignored
	b.state.nofile = p.page.Plan.NoFile
	if b.state.nofile.Max == 0 { // no runtime has raised it
		sys(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_NOFILE, 0, uintptr(unsafe.Pointer(&b.state.nofile)), 0)
	}
	b.state.stderr = uintptr(p.page.Plan.Stderr)
	p.tag(&b.state.locks)
	var sid int32 // of the terminal
	addr := uintptr(unsafe.Pointer(&sid))
	if _, e := sys(unix.SYS_IOCTL, 0, unix.TIOCGSID, addr, 0, 0); e == 0 {
		own, _ := sys(unix.SYS_GETSID, 0, 0, 0, 0, 0)
		signals.terminal = uintptr(sid) == own
	}
	terminal := openTerminal()
	signals.onTerminal = terminal >= 0
	signals.shared = signals.terminal || isInForeground(terminal)
	closeFD(terminal)
	if signals.shared {
		b.state.pgid, _ = sys(unix.SYS_GETPGID, 0, 0, 0, 0, 0)
	}
}

// environment is that of the server, with the MCPSCOPE_ID of its own in the place of that of an outer one.
// Main has put that into the environment of a plan.
func (p *Start) environment() uintptr {
	if p.page.Plan.IsByMain {
		return addressOf(p.Command.Env)
	}
	size := copy(p.variable[:], idVariable)
	copy(p.variable[size:], p.id[:])
	n := 0
	for _, v := range p.Command.Env {
		if !isOuterID(v) {
			p.env[n&(envMost-1)] = v
			n++
		}
	}
	p.env[n&(envMost-1)] = uintptr(unsafe.Pointer(&p.variable))
	return uintptr(unsafe.Pointer(&p.env))
}

// prepareHelpers fills in the arguments of helpers but the first one, and their environment.
func (l *lasting) prepareHelpers(env uintptr) {
	l.argv[0] = 0 // see goProcess.name
	l.argv[1] = address(helperCommand)
	l.args = 2
	l.env = env
}

// isOuterID reports whether a variable is the MCPSCOPE_ID of an outer server. The server gets its own one.
func isOuterID(addr uintptr) bool { return hasPrefix(addr, idVariable) }

func (p *Start) isManaged() bool { return p.page.Order.Managed }

// tag is the raw form of freeze.Tag.Limit, for the tag of the id.
func (p *Start) tag(limit *unix.Rlimit) {
	limitWithoutTag(limit)
	if limit.Cur == unix.RLIM_INFINITY { // otherwise it is in use
		limit.Cur = tagOf(&p.id)
	}
}

// undo takes back a start that failed: it ends the guard, which removes the group, and closes all that this
// start has opened but the page's file. Main finds its descriptors and limits as they were.
func (p *Start) undo(l *Launcher) {
	if p.page == nil {
		return
	}
	forgetMain(p)
	p.reapLeader(&l.keeper.lasting)
	l.keeper.abandon()
	closeFD(l.group.payload) // EBADF for -1
	closeFD(l.group.kills)
	closeFD(l.children.list)
	closeFD(p.score)
	closeFD(l.Signals.fd)
	report := p.page.FD.Keep // main has it
	for _, fd := range p.page.Descriptors() {
		if fd != report {
			closeFD(fd)
		}
	}
	sys(unix.SYS_PRCTL, unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
}

// initReaps is the raw form of group.InitReaps.
func initReaps(on *page.Page, buf *[512]byte) bool {
	const initial = 0xEFFFFFFC // PROC_PID_INIT_INO: the machine's own
	if on.Started.Namespace == initial {
		return true
	}
	init := page.Process{}
	if !identify(&init, 1, buf) {
		return false
	}
	word := [len(init.Name) + 2]byte{' '}
	n := 1
	for _, c := range init.Name {
		if c == 0 {
			break
		}
		word[n] = c
		n++
	}
	word[n] = ' '
	return strings.Contains(page.ReapingInits, unsafe.String(&word[0], n+1))
}
