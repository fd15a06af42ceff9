// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package guard

import (
	"strings"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/page"
)

// Plain is a run that needs nothing of a Go runtime: one without flags but --name, variables and files of
// settings, where this process can make the group by itself. That is root where no manager is, by the backend
// cgroup, and a client in a place whose manager takes the directory over later. All its memory is here, since
// there is no heap.
type Plain struct {
	Args []uintptr // the server's, as the kernel has put them, with a 0 behind the last one
	Env  []uintptr // of this process, the same
	Path uintptr   // the file to execute
	// Browser is a variable that is added, or 0.
	Browser uintptr
	Name    string // of the server, which is also that in the name of its directory
	Hide    [2]uintptr
	// EOFGrace, TermGrace and IdleFreeze are the policy, in nanoseconds.
	EOFGrace, TermGrace, IdleFreeze int64
	// From is the place of the group. Of a manager it is the slice that servers before have made.
	From page.Origin
	// Chosen: the backend cgroup was asked for, so a delegated group does not come before it.
	Chosen bool
	// Reports: there is a journal, so a brain reports the end.
	Reports bool

	launcher Launcher
	page     *page.Page
	mask     uint64 // the client's
	read     uint64 // signals that the launcher reads: signal n is bit n-1
	ignores  uint64 // SIGCHLD, if the client ignores it
	signals  int32  // signalfd, or -1
	id       [idLength]byte
	texts    plainTexts
	buf      [512]byte
}

// plainTexts are strings that end with 0, and lists of them.
type plainTexts struct {
	dir      [96]byte       // of the group
	above    [pathMost]byte // of the directory that has it, from the root of the mount
	service  [32]byte       // of the user's manager
	variable [24]byte       // MCPSCOPE_ID
	brain    [24]byte
	env      [envMost]uintptr
	shell    [argsMost]uintptr
}

// Bounds of a plain run.
const (
	idLength = 8
	envMost  = 2048
	argsMost = 512
	nameMost = 64
	pathMost = 512
)

// idLetters are protocol.IDLetters, of which there are 32.
const idLetters = "abcdefghjkmnpqrstuvwxyz023456789"

// Signals that a launcher reads, as linux.Caught, and those of job control, which it blocks: to ignore them
// would be inherited by the server.
const (
	readSignals = ending | 1<<(unix.SIGCHLD-1) | 1<<(unix.SIGALRM-1) | 1<<(unix.SIGUSR1-1) |
		1<<(unix.SIGUSR2-1) | 1<<(unix.SIGABRT-1) | 1<<(unix.SIGPIPE-1) | 1<<(unix.SIGCONT-1) |
		1<<(unix.SIGXCPU-1) | 1<<(unix.SIGXFSZ-1) | 1<<(unix.SIGVTALRM-1) | 1<<(unix.SIGPROF-1) |
		1<<(unix.SIGWINCH-1) | 1<<(unix.SIGIO-1) | 1<<(unix.SIGPWR-1)
	jobSignals = 1<<(unix.SIGTSTP-1) | 1<<(unix.SIGTTIN-1) | 1<<(unix.SIGTTOU-1)
)

// Run runs the server, and ends the process as the server ends. It returns, for main to try, if it can't
// start the server: then nothing of it is left.
func (p *Plain) Run() {
	if len(p.Name) > nameMost || len(p.Args)+2 > argsMost || len(p.Env)+3 > envMost {
		return
	}
	dumpable, _ := sys(unix.SYS_PRCTL, unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	p.takeSignals()
	p.launcher.payload = -1
	p.launcher.children = -1
	p.signals = -1
	if p.prepare() && p.start() {
		p.live()
	}
	p.undo()
	sys(unix.SYS_PRCTL, unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
	sys(unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, dumpable, 0, 0, 0)
	setMask(&p.mask, nil)
}

// takeSignals blocks signals, so that from here on none ends the process. Those that the client ignores or
// blocks stay so: blocked, an ignored one would be read like any other.
func (p *Plain) takeSignals() {
	const ignored = 1 // SIG_IGN
	normal, action := [4]uint64{}, [4]uint64{}
	to, at := uintptr(unsafe.Pointer(&normal)), uintptr(unsafe.Pointer(&action))
	sys(unix.SYS_RT_SIGACTION, uintptr(unix.SIGCHLD), to, at, 8, 0) // ignored, it would hide the status
	if action[0] == ignored {
		p.ignores = 1 << (unix.SIGCHLD - 1)
	}
	all := uint64(readSignals | jobSignals)
	added, was := uintptr(unsafe.Pointer(&all)), uintptr(unsafe.Pointer(&p.mask))
	sys(unix.SYS_RT_SIGPROCMASK, unix.SIG_BLOCK, added, was, 8, 0)
	p.read = readSignals
	for sig := uintptr(1); sig < 32; sig++ {
		bit := uint64(1) << (sig - 1)
		if p.read&bit == 0 || sig == uintptr(unix.SIGCHLD) {
			continue
		}
		sys(unix.SYS_RT_SIGACTION, sig, 0, at, 8, 0)
		if action[0] == ignored || p.mask&bit != 0 {
			p.read &^= bit
		}
	}
	now := p.launcherMask()
	setMask(&now, nil)
}

func (p *Plain) launcherMask() uint64 { return p.mask | p.read | jobSignals }

// prepare makes the page and the descriptors that the guard inherits. It changes nothing outside.
func (p *Plain) prepare() bool {
	on, e := page.New()
	if e != 0 {
		return false
	}
	p.page = on
	p.makeID()
	self, e := sys(unix.SYS_PIDFD_OPEN, uintptr(unix.Getpid()), 0, 0, 0, 0)
	if e != 0 {
		return false
	}
	on.Launcher = int32(self)
	on.Program, e = openAt(unix.AT_FDCWD, "/proc/self/exe\x00", unix.O_PATH)
	if e != 0 {
		return false
	}
	on.EOFGrace = p.EOFGrace
	on.TermGrace = p.TermGrace
	on.Started.EOFGrace = p.EOFGrace
	on.Started.TermGrace = p.TermGrace
	on.Started.IdleFreeze = p.IdleFreeze
	return p.describe() && p.watchClient() && p.openPlace()
}

func (p *Plain) makeID() {
	random := uintptr(unsafe.Pointer(&p.id))
	sys(unix.SYS_GETRANDOM, random, idLength, 0, 0, 0)
	for i := range p.id {
		p.id[i] = idLetters[p.id[i]&31]
	}
	n := copy(p.texts.dir[:], "mcp-") // protocol.GroupPrefix
	n += copy(p.texts.dir[n:], p.Name)
	n += copy(p.texts.dir[n:], "-")
	n += copy(p.texts.dir[n:len(p.texts.dir)-1], p.id[:])
	if p.isManaged() {
		n += copy(p.texts.dir[n:], ".scope") // protocol.ScopeSuffix
	}
	p.nameDirectories(p.texts.dir[:n])
	n = copy(p.texts.variable[:], "MCPSCOPE_ID=")
	copy(p.texts.variable[n:], p.id[:])
	n = copy(p.texts.brain[:], "brain-")
	copy(p.texts.brain[n:], p.id[:])
}

func (p *Plain) isManaged() bool { return p.From != page.CgroupDirectory }

// nameDirectories is page.SetDirectories.
func (p *Plain) nameDirectories(dir []byte) {
	all := p.page.Directories[:]
	n := 0
	if p.isManaged() {
		n += copy(all[n:], dir)
		n += copy(all[n:], "/payload\x00") // protocol.PayloadName
		n += copy(all[n:], dir)
		n += copy(all[n:], "/guards\x00") // protocol.GuardsName
	}
	copy(all[n:], dir)
}

// describe fills in the facts of the start.
func (p *Plain) describe() bool {
	s := &p.page.Started
	s.Mark = page.StartedMark
	var now unix.Timespec
	sys(unix.SYS_CLOCK_GETTIME, unix.CLOCK_REALTIME, uintptr(unsafe.Pointer(&now)), 0, 0, 0)
	s.At = now.Nano()
	s.From = p.From
	client, _ := sys(unix.SYS_GETPPID, 0, 0, 0, 0, 0)
	own := unix.Getpid()
	var ns unix.Stat_t
	here := unix.AT_FDCWD
	file, to := address("/proc/self/ns/pid\x00"), uintptr(unsafe.Pointer(&ns))
	_, e := sys(unix.SYS_NEWFSTATAT, uintptr(here), file, to, 0, 0)
	s.Namespace = ns.Ino
	return e == 0 && p.identify(&s.Client, int(client)) && p.identify(&s.Launcher, own)
}

// identify reads /proc/PID/stat (proc_pid_stat(5)).
func (p *Plain) identify(i *page.Process, pid int) bool {
	path := [32]byte{}
	n := copy(path[:], "/proc/")
	var digits [11]byte
	at := decimal(&digits, pid) - uintptr(unsafe.Pointer(&digits))
	n += copy(path[n:], digits[at&15:len(digits)-1])
	copy(path[n:], "/stat")
	here := unix.AT_FDCWD
	fd, e := sys(unix.SYS_OPENAT, uintptr(here), uintptr(unsafe.Pointer(&path)), unix.O_CLOEXEC, 0, 0)
	if e != 0 {
		return false
	}
	text := p.buf[:min(readFile(int32(fd), &p.buf), uintptr(len(p.buf)))]
	closeFD(int32(fd))
	first, last := 0, 0
	for k, c := range text {
		if c == '(' && first == 0 {
			first = k
		}
		if c == ')' {
			last = k
		}
	}
	if first == 0 || last < first {
		return false
	}
	copy(i.Name[:len(i.Name)-1], text[first+1:last])
	i.PID = int64(pid)
	const startTime = 22
	field := 2 // the name was the second one
	for _, c := range text[last+1:] {
		switch {
		case c == ' ':
			field++
		case field == startTime:
			i.Start = i.Start*10 + uint64(c-'0')
		}
	}
	return field > startTime
}

// watchClient is client.WatchParent.
func (p *Plain) watchClient() bool {
	on := p.page
	s := &on.Started
	kind := fileOf(0, &s.Stdin)
	fileOf(1, &s.Stdout)
	s.Socket = kind == unix.S_IFSOCK
	s.Conveyed = s.Socket || kind == unix.S_IFIFO
	if !s.Conveyed {
		s.Stdin = page.File{}
	}
	watched := epollOn(&on.Stdin, 0, unix.EPOLLRDHUP) && epollOn(&on.Stdout, 1, 0) &&
		epollOn(&on.Room[0], 1, unix.EPOLLOUT) && epollOn(&on.Room[1], 2, unix.EPOLLOUT)
	if !s.Conveyed || !watched {
		return watched
	}
	if !epollOn(&on.Input, 0, unix.EPOLLIN) {
		return false
	}
	if s.Client.PID <= 1 { // then init is not the client
		return true
	}
	fd, e := sys(unix.SYS_PIDFD_OPEN, uintptr(s.Client.PID), 0, 0, 0, 0)
	parent, _ := sys(unix.SYS_GETPPID, 0, 0, 0, 0, 0)
	switch {
	case e != 0:
	case int64(parent) == s.Client.PID:
		on.Client = int32(fd)
	default: // the client exited meanwhile, and the pid may be reused
		closeFD(int32(fd))
	}
	return true
}

// fileOf identifies an open file, and returns its type.
func fileOf(fd uintptr, f *page.File) (kind uint16) {
	var st unix.Statx_t
	const how = unix.AT_EMPTY_PATH | unix.AT_STATX_DONT_SYNC
	at := uintptr(unsafe.Pointer(&st))
	_, e := sys(unix.SYS_STATX, fd, address("\x00"), how, unix.STATX_TYPE|unix.STATX_INO, at)
	if e != 0 {
		return 0
	}
	f.Dev = unix.Mkdev(st.Dev_major, st.Dev_minor)
	f.Ino = st.Ino
	return st.Mode & unix.S_IFMT
}

// epollOn is client.newWatch. A file without events leaves -1.
func epollOn(watch *int32, fd uintptr, events uint32) bool {
	set, e := sys(unix.SYS_EPOLL_CREATE1, unix.EPOLL_CLOEXEC, 0, 0, 0, 0)
	if e != 0 {
		return false
	}
	event := unix.EpollEvent{Events: events}
	at := uintptr(unsafe.Pointer(&event))
	_, e = sys(unix.SYS_EPOLL_CTL, set, unix.EPOLL_CTL_ADD, fd, at, 0)
	if e == 0 {
		*watch = int32(set)
		return true
	}
	closeFD(int32(set))
	return e == syscall.EPERM
}

// start forks the guard, makes the group, and starts the server in it.
func (p *Plain) start() bool {
	if _, e := sys(unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 0, 0, 0, 0); e != 0 {
		return false
	}
	l := &p.launcher
	at, e := mapChild(unsafe.Sizeof(birth{}), roleMain)
	if e != 0 {
		return false
	}
	l.page = p.page
	l.birth = *(**birth)(unsafe.Pointer(&at))
	p.fillBirth(l.birth)
	guards := &l.guards
	copy(guards.name[:], "guard-") // protocol.GuardPrefix
	copy(guards.name[6:], p.id[:])
	guards.hide = p.Hide
	guards.argv[0] = uintptr(unsafe.Pointer(&p.texts.brain))
	guards.argv[1] = address("supervise\x00") // protocol.BrainCommand
	guards.args = 2
	guards.env = uintptr(unsafe.Pointer(unsafe.SliceData(p.Env)))
	guards.near = !p.initReaps()
	none := Gate{}
	l.guard, e = guards.fork(p.page, &none, false)
	if e != 0 {
		return false
	}
	l.payload, e = p.makeGroup()
	if e != 0 {
		return false
	}
	p.signals, e = p.signalFD()
	if e != 0 {
		return false
	}
	p.page.Wake = now() + settleAfter
	l.recordSize = unsafe.Sizeof([16]uint64{}) // struct signalfd_siginfo
	l.runtime.Signals = int(p.signals)
	return l.Start(int(l.payload), -1, l.runtime) == 0
}

// settleAfter is brain.SettleAfter.
const settleAfter = 10e6

func (p *Plain) signalFD() (fd int32, e syscall.Errno) {
	const quiet = unix.SFD_CLOEXEC | unix.SFD_NONBLOCK
	at := uintptr(unsafe.Pointer(&p.read))
	n, e := sys(unix.SYS_SIGNALFD4, ^uintptr(0), at, 8, quiet, 0)
	return int32(n), e
}

// fillBirth is newBirth.
func (p *Plain) fillBirth(b *birth) {
	b.page = p.page
	b.launcher = int32(unix.Getpid())
	b.payload = -1
	b.sock = -1
	b.sends = -1
	n := 0
	for _, v := range p.Env {
		if !isOwnVariable(v) {
			p.texts.env[n&(envMost-1)] = v
			n++
		}
	}
	if p.Browser != 0 {
		p.texts.env[n&(envMost-1)] = p.Browser
		n++
	}
	p.texts.env[n&(envMost-1)] = uintptr(unsafe.Pointer(&p.texts.variable))
	p.texts.shell[0] = address("/bin/sh\x00")
	p.texts.shell[1] = p.Path
	copy(p.texts.shell[2:], p.Args[1:])
	b.program = program{
		path: p.Path, argv: uintptr(unsafe.Pointer(unsafe.SliceData(p.Args))),
		env: uintptr(unsafe.Pointer(&p.texts.env)), shell: p.texts.shell[0],
		shellArgv: uintptr(unsafe.Pointer(&p.texts.shell)),
	}
	b.state.mask = p.mask
	b.state.ignores = p.ignores
	var death int32
	sys(unix.SYS_PRCTL, unix.PR_GET_PDEATHSIG, uintptr(unsafe.Pointer(&death)), 0, 0, 0)
	b.state.death = uintptr(death)
	sys(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_NOFILE, 0, uintptr(unsafe.Pointer(&b.state.nofile)), 0)
	p.tag(&b.state.locks)
	var session int32
	at := uintptr(unsafe.Pointer(&session))
	if _, e := sys(unix.SYS_IOCTL, 0, unix.TIOCGSID, at, 0, 0); e == 0 {
		own, _ := sys(unix.SYS_GETSID, 0, 0, 0, 0, 0)
		p.launcher.runtime.Terminal = uintptr(session) == own
	}
	if p.launcher.runtime.Terminal {
		b.state.pgid, _ = sys(unix.SYS_GETPGID, 0, 0, 0, 0, 0)
	}
}

// isOwnVariable reports whether a variable is the id of an outer server.
func isOwnVariable(at uintptr) bool {
	const name = "MCPSCOPE_ID="
	for i := 0; i < len(name); i++ {
		if **(**byte)(unsafe.Pointer(&at)) != name[i] {
			return false
		}
		at++
	}
	return true
}

// tag is freeze.Tag of the id: a server in a server has one of its own.
func (p *Plain) tag(limit *unix.Rlimit) {
	at := uintptr(unsafe.Pointer(limit))
	sys(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_LOCKS, 0, at, 0)
	const bits, magic = 42, uint64(0x6d63)
	if limit.Cur>>bits == magic {
		limit.Cur = limit.Max
		sys(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_LOCKS, at, 0, 0)
	}
	if limit.Cur != unix.RLIM_INFINITY {
		return // in use
	}
	number := uint64(0)
	for _, c := range p.id {
		digit := uint64(c - '0')
		if c >= 'a' {
			digit = uint64(c-'a') + 10
		}
		number = number*36 + digit
	}
	limit.Cur = magic<<bits | number&(1<<bits-1)
}

// live is the launcher from the server's start on. It returns if the server could not be executed.
func (p *Plain) live() {
	l := &p.launcher
	if p.page.FailedStep == page.StepNone { // otherwise main tries again, and reports why it can't
		p.leaveClient()
	}
	for {
		for l.mainPID > 0 && l.end == NotEnded {
			polls, count, timeout := l.pollArguments()
			_, e := sys(unix.SYS_PPOLL, polls, count, timeout, 0, 0)
			l.react(e)
			if l.stopBy != 0 {
				p.stop(l.stopBy)
				l.stopBy = 0
			}
		}
		if l.end == MembersStuck {
			p.reportStuck()
		}
		if l.end == BrainEndedIt {
			break
		}
		if p.leavesReport() {
			// init would not reap a guard that was a child of this process, and one that is dead is replaced
			l.page.Returned = !l.guards.near && !endedWithin(int32(l.guard.PIDFD), 0)
			l.leaveToBrain()
			if l.page.Returned {
				p.exit()
			}
			continue
		}
		if p.removeGroup() || l.mainPID <= 0 {
			break
		}
		l.leaveToBrain()
	}
	failed := p.page.FailedStep
	l.Dismiss(page.WordDone, startWithin)
	if failed == page.StepNone {
		p.exit()
	}
}

// undo is for a start that failed: it ends the guard, which removes the group, and closes all that prepare
// and start have opened. Main finds its descriptors, signals and limits as they were.
func (p *Plain) undo() {
	l := &p.launcher
	if l.guard.PIDFD > 0 {
		l.Abandon()
	}
	closeFD(l.payload) // fails for none
	closeFD(l.children)
	closeFD(p.signals)
	if p.page == nil {
		return
	}
	for _, fd := range p.page.Descriptors() {
		closeFD(fd)
	}
	closeFD(p.page.Memory)
}

// leavesReport: nothing of the server is left, and a brain reports that and removes the group. The client
// need not wait for the brain.
func (p *Plain) leavesReport() bool {
	return p.page.FailedStep == page.StepNone && (p.Reports || p.isManaged())
}

// leaveToBrain is for a group that a brain removes: a member may have made others in it.
func (l *Launcher) leaveToBrain() {
	l.end = NotEnded
	l.leaves = true
	l.page.LeftOvers = true
	atomic.StoreUint32(&l.page.Ender, page.NotEnding)
	l.tellGuard()
}

// leaveClient closes the descriptors that are the server's own, but stderr.
func (p *Plain) leaveClient() {
	l := &p.launcher
	null, _ := openAt(unix.AT_FDCWD, "/dev/null\x00", unix.O_RDWR)
	sys(unix.SYS_DUP3, uintptr(null), 0, unix.O_CLOEXEC, 0, 0)
	sys(unix.SYS_DUP3, uintptr(null), 1, unix.O_CLOEXEC, 0, 0)
	keeps := keepList{}
	for fd := int32(0); fd < 3; fd++ {
		keeps.add(fd)
	}
	for _, fd := range p.page.Descriptors() {
		keeps.add(fd)
	}
	keeps.add(p.page.Memory)
	keeps.add(int32(l.guard.Sock))
	keeps.add(int32(l.guard.PIDFD))
	keeps.add(int32(l.runtime.Signals))
	keeps.add(l.payload)
	keeps.add(l.children)
	keeps.closeOthers()
}

// stop stops the process by a signal of job control, which is blocked, until the shell continues it.
func (p *Plain) stop(sig unix.Signal) {
	mask := p.launcherMask()
	open := mask &^ (1 << (uint64(sig-1) & 63))
	sys(unix.SYS_KILL, uintptr(unix.Getpid()), uintptr(sig), 0, 0, 0)
	setMask(&open, nil) // it stops here
	setMask(&mask, nil)
}

// exit ends the process as the main process has ended.
func (p *Plain) exit() {
	if !p.page.Exited {
		p.complain("cannot find the exit status of \"")
		exit(125)
	}
	status := p.page.Status
	sig := uintptr(status & 0x7f)
	if sig == 0 {
		exit(uintptr(status >> 8 & 0xff))
	}
	none, action, mask := unix.Rlimit{}, [4]uint64{}, ^uint64(1<<(sig-1))
	sys(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_CORE, uintptr(unsafe.Pointer(&none)), 0, 0)
	sys(unix.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&action)), 0, 8, 0)
	sys(unix.SYS_KILL, uintptr(unix.Getpid()), sig, 0, 0, 0)
	setMask(&mask, nil)
	exit(128 + sig) // as PID 1, which its own signals do not end
}

// reportStuck is for members that SIGKILL has not ended. A brain waits for them.
func (p *Plain) reportStuck() {
	p.complain("cannot stop all of \"")
	const hint = "mcpscope: hint: mcpscope waits for it, and removes the group then\n"
	writeText(hint)
	exit(125)
}

// complain writes a line with the name of the server, and the members that are left.
func (p *Plain) complain(text string) {
	line := &p.buf
	n := copy(line[:], "mcpscope: ")
	n += copy(line[n:], text)
	n += copy(line[n:], p.Name)
	n += copy(line[n:], "\"")
	left := p.page.Left[:]
	if left[0] != 0 {
		n += copy(line[n:], ": ")
	}
	for _, c := range left {
		if c == 0 || n >= len(line)-2 {
			break
		}
		if c == '\n' {
			c = ','
		}
		line[n] = c
		n++
	}
	line[n&511] = '\n'
	sys(unix.SYS_WRITE, 2, uintptr(unsafe.Pointer(line)), uintptr(n+1), 0, 0)
}

func writeText(text string) { sys(unix.SYS_WRITE, 2, address(text), uintptr(len(text)), 0, 0) }

// initReaps is group.InitReaps.
func (p *Plain) initReaps() bool {
	const initial = 0xEFFFFFFC // PROC_PID_INIT_INO: the machine's own
	if p.page.Started.Namespace == initial || unix.Getpid() == 1 {
		return true
	}
	init := page.Process{}
	if !p.identify(&init, 1) {
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
