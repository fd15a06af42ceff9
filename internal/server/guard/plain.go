// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package guard

import (
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/page"
	"github.com/mcpscope/mcpscope/internal/settings/raw"
)

// Plain is a run that needs nothing of a Go runtime: one without variables, and without files that set
// anything, where this process can make the group by itself. That is root where no manager is, by the backend
// cgroup, and a client in a place whose manager takes the directory over later. All its memory is here, since
// there is no heap.
type Plain struct {
	Command PlainCommand
	Flags   raw.Flags
	Name    string // of the server, which is also that in the name of its directory
	// From is the place of the group. Of a manager it is the slice that servers before have made.
	From page.Origin
	// Reports: there is a journal, so a brain reports the end.
	Reports bool

	page  *page.Page
	birth *birth
	score int32 // the file of its own
	id    [idLength]byte
	texts plainTexts
	buf   [512]byte
}

// PlainCommand is the command line of a plain run.
type PlainCommand struct {
	Args []uintptr  // the server's, as the kernel has put them, with a 0 behind the last one
	Env  []uintptr  // of this process, the same
	Path uintptr    // the file to execute
	Hide [2]uintptr // as Options.Hide
}

// plainTexts are strings that end with 0, and lists of them.
type plainTexts struct {
	dir      [96]byte       // of the group
	above    [pathMost]byte // of the directory that has it, from the root of the mount
	variable [24]byte       // MCPSCOPE_ID
	env      [envMost]uintptr
	shell    [argsMost]uintptr
}

// Bounds of a plain run.
const (
	envMost  = 2048
	argsMost = 512
	nameMost = 64
	pathMost = 512
)

// Run runs the server, and ends the process as the server ends. It returns false, for main to try, if it
// can't start the server: then nothing of it is left. It returns true where main has to do the rest: see
// Launcher.Over.
func (p *Plain) Run(l *Launcher) bool {
	c := &p.Command
	if len(p.Name) > nameMost || len(c.Args)+2 > argsMost || len(c.Env)+3 > envMost {
		return false
	}
	dumpable, _ := sys(unix.SYS_PRCTL, unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	l.Signals.block(readSignals | jobSignals)
	l.Signals.take()
	p.score = -1
	if p.prepare(l) && p.start(l) {
		if p.page.ByLauncher.FailedStep == page.StepNone { // otherwise main tries again, and reports
			l.leaveClient()
		}
		l.live()
		if p.page.ByLauncher.FailedStep == page.StepNone {
			return true
		}
		l.over = false
		l.group.remove()
		l.keeper.dismiss(page.WordDone, startWithin)
	}
	p.undo(l)
	sys(unix.SYS_PRCTL, unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
	sys(unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, dumpable, 0, 0, 0)
	l.Signals.giveBack()
	return false
}

// prepare makes the page and the descriptors that the guard inherits. It changes nothing outside.
func (p *Plain) prepare(l *Launcher) bool {
	on, e := page.New()
	if e != 0 {
		return false
	}
	p.page = on
	l.attach(on)
	on.Order.Foreign = hasChildren()
	if !p.makeID() {
		return false
	}
	self, e := sys(unix.SYS_PIDFD_OPEN, uintptr(unix.Getpid()), 0, 0, 0, 0)
	if e != 0 {
		return false
	}
	on.FD.Launcher = int32(self)
	on.FD.Program, e = openAt(unix.AT_FDCWD, ownProgram, unix.O_PATH)
	if e != 0 {
		return false
	}
	f := &p.Flags
	on.Order.EOFGrace = f.EOFGrace
	on.Order.TermGrace = f.TermGrace
	on.Order.Managed = p.isManaged()
	on.Order.Replaces = f.Replace
	on.Order.Verbose = f.Verbose && !f.Quiet
	s := &on.Started
	s.EOFGrace = f.EOFGrace
	s.TermGrace = f.TermGrace
	s.IdleFreeze = f.IdleFreeze
	s.IdleTimeout = f.IdleTimeout
	s.MaxLifetime = f.MaxLifetime
	s.Replace = f.Replace
	s.Quiet = f.Quiet
	s.Verbose = on.Order.Verbose
	s.OnClientDeath = f.OnClientDeath
	return p.describe() && watchClient(on) && p.openPlace()
}

// makeID fails where no random number can be had: all servers would have one tag.
func (p *Plain) makeID() bool {
	random := uintptr(unsafe.Pointer(&p.id))
	n, e := sys(unix.SYS_GETRANDOM, random, idLength, 0, 0, 0)
	if e != 0 || n != idLength {
		return false
	}
	for i := range p.id {
		p.id[i] = idLetters[p.id[i]&31]
	}
	size := copy(p.texts.dir[:], groupPrefix)
	size += copy(p.texts.dir[size:], p.Name)
	size += copy(p.texts.dir[size:], "-")
	size += copy(p.texts.dir[size:len(p.texts.dir)-1], p.id[:])
	if p.isManaged() {
		size += copy(p.texts.dir[size:], scopeSuffix)
	}
	p.nameDirectories(p.texts.dir[:size])
	size = copy(p.texts.variable[:], idVariable)
	copy(p.texts.variable[size:], p.id[:])
	return true
}

func (p *Plain) isManaged() bool { return p.From != page.CgroupDirectory }

// nameDirectories is the raw form of page.SetDirectories.
func (p *Plain) nameDirectories(dir []byte) {
	all := p.page.Directories[:]
	n := 0
	if p.isManaged() {
		n += copy(all[n:], dir)
		n += copy(all[n:], "/"+payloadName)
		n += copy(all[n:], dir)
		n += copy(all[n:], "/"+guardsName)
	}
	copy(all[n:], dir)
}

// describe fills in the facts of the start.
func (p *Plain) describe() bool {
	if !hasOwnProc(&p.buf) {
		return false
	}
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
	file := address("/proc/self/ns/pid\x00")
	to := uintptr(unsafe.Pointer(&ns))
	_, e := sys(unix.SYS_NEWFSTATAT, uintptr(here), file, to, 0, 0)
	s.Namespace = ns.Ino
	return e == 0 && identify(&s.Client, int(client), &p.buf) && identify(&s.Launcher, own, &p.buf)
}

// hasOwnProc is the raw form of proc.Ours.
func hasOwnProc(buf *[512]byte) bool {
	here := unix.AT_FDCWD
	addr := uintptr(unsafe.Pointer(buf))
	size := unsafe.Sizeof(*buf)
	n, e := sys(unix.SYS_READLINKAT, uintptr(here), address("/proc/self\x00"), addr, size, 0)
	number := 0
	for i := uintptr(0); i < n && e == 0; i++ {
		number = number*10 + int(buf[i&511]-'0')
	}
	return number == unix.Getpid()
}

// identify reads /proc/PID/stat (proc_pid_stat(5)).
func identify(i *page.Process, pid int, buf *[512]byte) bool {
	path := [32]byte{}
	n := copy(path[:], "/proc/")
	var digits [11]byte
	addr := decimal(&digits, pid) - uintptr(unsafe.Pointer(&digits))
	n += copy(path[n:], digits[addr&15:len(digits)-1])
	copy(path[n:], "/stat")
	here := unix.AT_FDCWD
	fd, e := sys(unix.SYS_OPENAT, uintptr(here), uintptr(unsafe.Pointer(&path)), unix.O_CLOEXEC, 0, 0)
	if e != 0 {
		return false
	}
	text := buf[:min(readFile(int32(fd), buf), uintptr(len(buf)))]
	closeFD(int32(fd))
	var first, last int
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

// watchClient is the raw form of client.WatchParent.
func watchClient(on *page.Page) bool {
	s := &on.Started
	kind := fileOf(0, &s.Stdin)
	fileOf(1, &s.Stdout)
	s.Socket = kind == unix.S_IFSOCK
	s.Conveyed = s.Socket || kind == unix.S_IFIFO
	if !s.Conveyed {
		s.Stdin = page.File{}
	}
	watched := epollOn(&on.FD.Stdin, 0, unix.EPOLLRDHUP) && epollOn(&on.FD.Stdout, 1, 0) &&
		epollOn(&on.FD.Room[0], 1, unix.EPOLLOUT) && epollOn(&on.FD.Room[1], 2, unix.EPOLLOUT)
	if !watched || s.Conveyed && !epollOn(&on.FD.Input, 0, unix.EPOLLIN) {
		return false
	}
	if !clientMatters(s) || s.Client.PID <= 1 { // init is not the client
		return true
	}
	fd, e := sys(unix.SYS_PIDFD_OPEN, uintptr(s.Client.PID), 0, 0, 0, 0)
	parent, _ := sys(unix.SYS_GETPPID, 0, 0, 0, 0, 0)
	switch {
	case e != 0:
	case int64(parent) == s.Client.PID:
		on.FD.Client = int32(fd)
	default: // the client exited meanwhile, and the pid may be reused
		closeFD(int32(fd))
	}
	return true
}

// clientMatters is the raw form of client.Side.matters.
func clientMatters(s *page.Started) bool {
	switch s.OnClientDeath {
	case page.IgnoreClientDeath:
		return false
	case page.StopOnClientDeath:
		return true
	}
	return s.Conveyed
}

// fileOf identifies an open file, and returns its type.
func fileOf(fd uintptr, f *page.File) (kind uint16) {
	var st unix.Statx_t
	const how = unix.AT_EMPTY_PATH | unix.AT_STATX_DONT_SYNC
	addr := uintptr(unsafe.Pointer(&st))
	_, e := sys(unix.SYS_STATX, fd, address("\x00"), how, unix.STATX_TYPE|unix.STATX_INO, addr)
	if e != 0 {
		return 0
	}
	f.Dev = unix.Mkdev(st.Dev_major, st.Dev_minor)
	f.Ino = st.Ino
	return st.Mode & unix.S_IFMT
}

// epollOn is client.newWatch. A file without events leaves -1.
func epollOn(watch *int32, fd uintptr, events uint32) bool {
	file := page.File{}
	if fileOf(fd, &file) == unix.S_IFREG {
		return true
	}
	set, e := sys(unix.SYS_EPOLL_CREATE1, unix.EPOLL_CLOEXEC, 0, 0, 0, 0)
	if e != 0 {
		return false
	}
	event := unix.EpollEvent{Events: events}
	addr := uintptr(unsafe.Pointer(&event))
	_, e = sys(unix.SYS_EPOLL_CTL, set, unix.EPOLL_CTL_ADD, fd, addr, 0)
	if e == 0 {
		*watch = int32(set)
		return true
	}
	closeFD(int32(set))
	return e == syscall.EPERM
}

// start forks the guard, makes the group, and starts the server in it.
func (p *Plain) start(l *Launcher) bool {
	p.score = openScore()
	if _, e := sys(unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 0, 0, 0, 0); e != 0 {
		return false
	}
	addr, e := mapChild(unsafe.Sizeof(birth{}), roleMain)
	if e != 0 {
		return false
	}
	p.birth = *(**birth)(unsafe.Pointer(&addr))
	p.fillBirth(&l.Signals)
	guards := &l.keeper.lasting
	n := copy(guards.name[:], guardPrefix)
	copy(guards.name[n:], p.id[:])
	guards.hide = p.Command.Hide
	l.keeper.lasting.prepareBrains(&l.brainName, addressOf(p.Command.Env))
	guards.near = !initReaps(p.page, &p.buf)
	none := Gate{}
	l.keeper.guard, e = guards.fork(p.page, &none, false)
	if e != 0 {
		return false
	}
	l.group.payload, e = p.makeGroup()
	if e != 0 {
		return false
	}
	e = l.Signals.open()
	if e != 0 {
		return false
	}
	p.page.ByBrain.CallBrainAt = now() + settleAfter
	switch {
	case p.page.Order.Verbose:
		p.page.Order.PlainEnd = page.BrainEndsFirst
	case p.Reports || p.isManaged():
		p.page.Order.PlainEnd = page.BrainEndsLater
	}
	if l.arm(-1) != 0 {
		return false
	}
	missed := uint64(0)
	if l.Signals.terminal {
		missed = ofTerminalNow()
	}
	e = p.birth.start(l.group.payload)
	if e == 0 {
		closeFD(p.birth.child.pidfd)
	}
	l.begin(p.birth.child.pid, e)
	for sig := unix.Signal(1); sig <= 64 && e == 0; sig++ {
		if missed&(1<<(uint64(sig-1)&63)) != 0 {
			l.children.signalMain(sig)
		}
	}
	if p.page.ByLauncher.FailedStep == page.StepNone { // otherwise main starts the server, with that score
		lowerScore(p.score)
		p.score = -1
	}
	return true
}

// fillBirth is the raw form of newBirth.
func (p *Plain) fillBirth(signals *Signals) {
	b := p.birth
	c := &p.Command
	b.page = p.page
	b.launcher = int32(unix.Getpid())
	b.payload = -1
	b.sock = -1
	b.sends = -1
	n := 0
	for _, v := range c.Env {
		if !isOuterID(v) {
			p.texts.env[n&(envMost-1)] = v
			n++
		}
	}
	p.texts.env[n&(envMost-1)] = uintptr(unsafe.Pointer(&p.texts.variable))
	p.texts.shell[0] = address("/bin/sh\x00")
	p.texts.shell[1] = c.Path
	copy(p.texts.shell[2:], c.Args[1:])
	b.program = program{
		path: c.Path, argv: addressOf(c.Args),
		env: uintptr(unsafe.Pointer(&p.texts.env)), shell: p.texts.shell[0],
		shellArgv: uintptr(unsafe.Pointer(&p.texts.shell)),
	}
	b.state.mask = signals.Client.Blocked
	b.state.ignores = signals.Client.Ignored
	sys(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_NOFILE, 0, uintptr(unsafe.Pointer(&b.state.nofile)), 0)
	p.tag(&b.state.locks)
	var sid int32 // of the terminal
	addr := uintptr(unsafe.Pointer(&sid))
	if _, e := sys(unix.SYS_IOCTL, 0, unix.TIOCGSID, addr, 0, 0); e == 0 {
		own, _ := sys(unix.SYS_GETSID, 0, 0, 0, 0, 0)
		signals.terminal = uintptr(sid) == own
	}
	if signals.terminal {
		b.state.pgid, _ = sys(unix.SYS_GETPGID, 0, 0, 0, 0, 0)
	}
}

// isOuterID reports whether a variable is the MCPSCOPE_ID of an outer server. The server gets its own one.
func isOuterID(addr uintptr) bool {
	for i := 0; i < len(idVariable); i++ {
		if **(**byte)(unsafe.Pointer(&addr)) != idVariable[i] {
			return false
		}
		addr++
	}
	return true
}

// tag is the raw form of freeze.Tag.Limit, for the tag of the id.
func (p *Plain) tag(limit *unix.Rlimit) {
	limitWithoutTag(limit)
	if limit.Cur == unix.RLIM_INFINITY { // otherwise it is in use
		limit.Cur = tagOf(&p.id)
	}
}

// undo takes back a start that failed: it ends the guard, which removes the group, and closes all that
// prepare and start have opened. Main finds its descriptors, signals and limits as they were.
func (p *Plain) undo(l *Launcher) {
	if p.page == nil {
		return
	}
	l.keeper.abandon()
	closeFD(l.group.payload) // EBADF for -1
	closeFD(l.group.kills)
	closeFD(l.children.list)
	closeFD(p.score)
	closeFD(l.Signals.fd)
	for _, fd := range p.page.Descriptors() {
		closeFD(fd)
	}
	closeFD(p.page.Memory)
}

// initReaps is the raw form of group.InitReaps.
func initReaps(on *page.Page, buf *[512]byte) bool {
	const initial = 0xEFFFFFFC // PROC_PID_INIT_INO: the machine's own
	if on.Started.Namespace == initial || unix.Getpid() == 1 {
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
