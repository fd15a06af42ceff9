// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package guard

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/page"
	"github.com/mcpscope/mcpscope/internal/settings/raw"
)

// Plain is a run that needs nothing of main: one without variables, and without files that set anything,
// where this process can make the group by itself. That is root where no manager is, by the backend cgroup,
// and a client in a place whose manager takes the directory over later. In a login session the manager makes
// the group.
type Plain struct {
	Start Start
	Flags raw.Flags
	Name  string // of the server, which is also that in the name of its directory
	// From is the place of the group. Of a manager it is the slice that servers before have made.
	From page.Origin
	// Reports: there is a journal, so a helper reports the end.
	Reports bool
	Program [4096]byte // the path of the file that it executes

	above [pathMost]byte // of the directory that has the group, from the root of the mount
}

// Bounds of a plain run.
const (
	envMost  = 2048
	nameMost = 64
	pathMost = 512
)

// Run runs the server, and ends the process as the server ends. It returns false, for main to try, if it
// can't start the server: then nothing of it is left. Of a manager that has failed main tries another place:
// see Launcher.Failed. It returns true where main has to do the rest: see Launcher.Over.
func (p *Plain) Run(l *Launcher) bool {
	if len(p.Name) > nameMost || len(p.Start.Command.Env)+3 > envMost {
		return false
	}
	dumpable, _ := sys(unix.SYS_PRCTL, unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	l.Signals.block(readSignals | jobSignals)
	l.Signals.take()
	p.Start.score = -1
	if p.prepare(l) && p.Start.perform(l) {
		if p.Start.page.ByLauncher.FailedStep == page.StepNone { // otherwise main tries again, and reports
			l.leaveClient()
			own := uintptr(unsafe.Pointer(p))
			freePages(own, own+unsafe.Sizeof(*p))
			l.live()
			return true
		}
		l.live()
		l.over = false
		l.group.remove()
		l.keeper.dismiss(page.WordDone, startWithin)
	}
	p.Start.undo(l)
	if p.hasAskedManager() {
		l.Failed = p.Start.page
	}
	if p.Start.page != nil {
		closeFD(p.Start.page.Memory)
	}
	sys(unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, dumpable, 0, 0, 0)
	l.Signals.restore()
	return false
}

// hasAskedManager reports whether a manager has failed, which may have taken long. Main itself finds out, at
// once, whether there is one.
func (p *Plain) hasAskedManager() bool {
	return p.Start.page != nil && p.Start.page.Plan.Failed.Size > 0
}

// prepare makes the page and the descriptors that the guard inherits. It changes nothing outside.
func (p *Plain) prepare(l *Launcher) bool {
	on, e := page.New()
	if e != 0 {
		return false
	}
	p.Start.page = on
	l.attach(on)
	on.Order.Managed = p.From != page.CgroupDirectory
	on.Order.Foreign = HasChildren()
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
	on.Plan.Limits = f.Limits
	on.Order.Replaces = f.Replace
	on.Order.Verbose = f.Verbose && !f.Quiet
	switch {
	case on.Order.Verbose:
		on.Order.PlainEnd = page.HelperEndsFirst
	case p.Reports || p.Start.isManaged():
		on.Order.PlainEnd = page.HelperEndsLater
	}
	s := &on.Started
	s.Policy.EOFGrace = f.EOFGrace
	s.Policy.TermGrace = f.TermGrace
	s.Policy.IdleFreeze = f.IdleFreeze
	s.Policy.IdleTimeout = f.IdleTimeout
	s.Replace = f.Replace
	s.Quiet = f.Quiet
	s.Verbose = on.Order.Verbose
	s.Policy.OnClientDeath = f.OnClientDeath
	return p.describe() && watchClient(on) && p.openPlace()
}

// makeID fails where no random number can be had: all servers would have one tag.
func (p *Plain) makeID() bool {
	random := uintptr(unsafe.Pointer(&p.Start.id))
	n, e := sys(unix.SYS_GETRANDOM, random, idLength, 0, 0, 0)
	if e != 0 || n != idLength {
		return false
	}
	for i := range p.Start.id {
		p.Start.id[i] = idLetters[p.Start.id[i]&31]
	}
	size := copy(p.Start.dir[:], groupPrefix)
	size += copy(p.Start.dir[size:], p.Name)
	size += copy(p.Start.dir[size:], "-")
	size += copy(p.Start.dir[size:len(p.Start.dir)-1], p.Start.id[:])
	if p.Start.isManaged() {
		copy(p.Start.dir[size:], scopeSuffix)
	}
	return true
}

// describe fills in the facts of the start.
func (p *Plain) describe() bool {
	if !hasOwnProc(&p.Start.buf) {
		return false
	}
	s := &p.Start.page.Started
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
	buf := &p.Start.buf
	return e == 0 && identify(&s.Client, int(client), buf) && identify(&s.Launcher, own, buf)
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
	fd := openProcess(pid, "/stat")
	if fd < 0 {
		return false
	}
	text := buf[:min(readFile(fd, buf), uintptr(len(buf)))]
	closeFD(fd)
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
	for k := 0; k < len(i.Name)-1 && first+1+k < last; k++ { // in a guard copy calls the runtime
		i.Name[k] = buf[(first+1+k)&511]
	}
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
	kind := fileOf(0, &s.Side.Stdin)
	fileOf(1, &s.Side.Stdout)
	s.Side.Socket = kind == unix.S_IFSOCK
	s.Side.Conveyed = s.Side.Socket || kind == unix.S_IFIFO
	if !s.Side.Conveyed {
		s.Side.Stdin = page.File{}
	}
	watched := epollOn(&on.FD.Stdin, 0, unix.EPOLLRDHUP) && epollOn(&on.FD.Stdout, 1, 0) &&
		epollOn(&on.FD.Room[0], 1, unix.EPOLLOUT) && epollOn(&on.FD.Room[1], 2, unix.EPOLLOUT)
	if !watched || s.Side.Conveyed && !epollOn(&on.FD.Input, 0, unix.EPOLLIN) {
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
	switch s.Policy.OnClientDeath {
	case page.IgnoreClientDeath:
		return false
	case page.StopOnClientDeath:
		return true
	}
	return s.Side.Conveyed
}

// fileOf identifies an open file, and returns its type.
func fileOf(fd uintptr, f *page.File) (kind uint16) { return fileAt(fd, address("\x00"), f) }

// fileAt does so for the file of a path.
func fileAt(dir, path uintptr, f *page.File) (kind uint16) {
	var st unix.Statx_t
	const how = unix.AT_EMPTY_PATH | unix.AT_STATX_DONT_SYNC
	addr := uintptr(unsafe.Pointer(&st))
	_, e := sys(unix.SYS_STATX, dir, path, how, unix.STATX_TYPE|unix.STATX_INO, addr)
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
