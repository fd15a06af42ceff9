// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package guard

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/kernel/raw"
)

const (
	stackSize = 2 * 4096
	mostKept  = 32
)

// process is all the memory that the guard has, with a stack and the strings behind it. Launcher and guard
// share the mapping, so that no page of it is copied.
type process struct {
	page     *Page
	size     uintptr // of the mapping
	g        goroutine
	tls      [4]uintptr
	pid      int32 // pid, pidfd and errno are for the launcher, by the process between
	pidfd    int32
	errno    uint32
	name     [16]byte
	numbers  [2][12]byte // the last arguments of a later brain
	sock     int32
	brainEnd int32 // number of the brain's end of the socket
	signals  int32 // signalfd
	null     int32
	state    int32           // /proc/PID/stat of the launcher
	slow     int             // times that a brain got more time
	home     int32           // leaf that the guard lives in
	cgroup   int32           // /proc/self/cgroup and /proc/thread-self/children; both opened before there is a
	children int32           // server, which could mount something over /proc
	place    uint64          // hash of cgroup while the guard is at home
	joins    bool            // clone3 was refused
	keep     [mostKept]int32 // descriptors that the guard has after the birth
	kept     int
	shared   int // the first ones of keep are for later brains, too

	main      mainProcess
	argv, env uintptr // of a later brain
	clone     cloneArgs
	brainPID  int32
	mainPID   int32 // what signals are sent to: the page may be forged
	deaths    int

	polls     [5]unix.PollFd
	answerBy  int64 // end of the time for an answer, or 0
	continued bool  // the brain got a SIGCONT, and still has not answered
	dueAsked  int64 // Page.Due that the brain was asked about
	childless bool
	exited    bool // the main process
	info      [16]uint64
	buf       [1024]byte
	gate      Gate
}

// mainProcess is Server as system calls want it.
type mainProcess struct {
	wanted                   bool
	path, argv, env          uintptr
	shell, shellArgv         uintptr // 0: no fallback for ENOEXEC
	pgid                     uintptr
	mask, ignored            uint64
	nofile, locks            unix.Rlimit
	limitsFiles, limitsLocks bool
}

// fixedSize is that of a process with its stack.
const fixedSize = (unsafe.Sizeof(process{})+4095)&^4095 + stackSize

// mapProcess maps a process with more bytes behind it.
func mapProcess(more uintptr) (*process, syscall.Errno) {
	const how = unix.MAP_SHARED | unix.MAP_ANONYMOUS | unix.MAP_POPULATE
	at, e := raw.MapMemory(fixedSize+more, how, -1)
	if e != 0 {
		return nil, e
	}
	p := (*process)(at)
	p.size = fixedSize + more
	p.tls[2] = uintptr(unsafe.Pointer(&p.g))
	p.clone = cloneArgs{
		flags:      unix.CLONE_INTO_CGROUP | unix.CLONE_CLEAR_SIGHAND | unix.CLONE_SETTLS | unix.CLONE_PIDFD,
		exitSignal: uint64(unix.SIGCHLD),
		pidfd:      uint64(uintptr(unsafe.Pointer(&p.pidfd))),
		tls:        uint64(uintptr(unsafe.Pointer(&p.tls[3]))),
		stack:      uint64(uintptr(at) + fixedSize - stackSize), stackSize: stackSize,
	}
	return p, 0
}

// fork makes the guard, which has no server yet. The page has the descriptors of the brain's side afterwards.
func (p *process) fork(page *Page) (what string, errno syscall.Errno) {
	p.page = page
	if what, errno = p.open(); errno == 0 {
		what, errno = "fork the guard", forkBetween(p)
	}
	if errno == 0 {
		page.GuardPID = p.pid // the guard itself may not have run yet
		page.sock, page.pidfd = p.brainEnd, p.pidfd
	} else {
		raw.Close(p.brainEnd)
	}
	for _, fd := range [...]int32{p.sock, p.signals, p.state, p.null} {
		raw.Close(fd)
	}
	raw.Sys(unix.SYS_MUNMAP, uintptr(unsafe.Pointer(p)), p.size, 0, 0, 0)
	return what, errno
}

// open opens what the guard has from the beginning.
func (p *process) open() (what string, errno syscall.Errno) {
	page := p.page
	p.brainEnd, p.sock, p.signals, p.state, p.null = -1, -1, -1, -1, -1
	ends := [2]int32{}
	_, errno = raw.Sys(unix.SYS_SOCKETPAIR, unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0,
		uintptr(unsafe.Pointer(&ends)), 0)
	if errno != 0 {
		return "create socket", errno
	}
	p.brainEnd, p.sock = ends[0], ends[1]
	// SIGCONT comes with each byte, see wakeBySocket
	caught := ^uint64(1 << (unix.SIGCONT - 1))
	fd, errno := raw.Sys(unix.SYS_SIGNALFD4, ^uintptr(0), uintptr(unsafe.Pointer(&caught)), unsafe.Sizeof(caught),
		unix.SFD_CLOEXEC|unix.SFD_NONBLOCK, 0)
	if errno != 0 {
		return "create signalfd", errno
	}
	p.signals = int32(fd)
	if p.state, errno = raw.OpenAt(unix.AT_FDCWD, stateFile, unix.O_RDONLY); errno != 0 {
		return "open our own state", errno
	}
	if p.null, errno = raw.OpenAt(unix.AT_FDCWD, nullFile, unix.O_RDWR); errno != 0 {
		return "open /dev/null", errno
	}
	p.home = page.Leaf
	for _, fd := range page.descriptors() {
		p.alsoKeep(fd)
	}
	p.alsoKeep(page.memory)
	p.alsoKeep(p.brainEnd)
	p.shared = p.kept
	for _, fd := range [...]int32{p.sock, p.signals, p.null, p.state} {
		p.alsoKeep(fd)
	}
	for i, fd := range [...]int32{p.sock, p.signals, page.Stdin, page.Stdout, page.Client} {
		p.polls[i] = unix.PollFd{Fd: fd, Events: unix.POLLIN}
	}
	raw.PutNumber(&p.numbers[0], page.memory)
	raw.PutNumber(&p.numbers[1], p.brainEnd)
	return "", 0
}

// forkBetween makes the guard by a process between, which exits at once, so that the guard is in no process tree of
// the client. That process shares the caller's descriptors, so that the guard's pidfd is opened there.
//
// All signals are blocked: a handler of the runtime in a process that borrows its memory would destroy it. That
// the function has no preemption point keeps it on its thread.
//
//go:noinline
//go:nosplit
func forkBetween(p *process) syscall.Errno {
	all, before := ^uint64(0), uint64(0)
	_, e := raw.Sys(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&all)),
		uintptr(unsafe.Pointer(&before)), unsafe.Sizeof(all), 0)
	if e != 0 {
		return e
	}
	pid, failed := vfork(unix.SYS_CLONE, vforkFlags|unix.CLONE_FILES|uintptr(unix.SIGCHLD), 0)
	if failed == 0 && pid == 0 {
		forkGuard(p)
	}
	raw.SetMask(&before)
	if failed != 0 {
		return syscall.Errno(failed)
	}
	for e = syscall.EINTR; e == syscall.EINTR; {
		_, e = raw.Sys(unix.SYS_WAIT4, pid, 0, unix.WALL, 0, 0)
	}
	return syscall.Errno(p.errno)
}

// forkGuard is all that the process between does.
//
//go:nosplit
func forkGuard(p *process) {
	raw.Sys(unix.SYS_SETPGID, 0, 0, 0, 0, 0) // the client may kill its process group
	into := &p.clone
	if p.page.Leaf < 0 {
		into.flags &^= unix.CLONE_INTO_CGROUP
	}
	into.cgroup = uint64(p.page.Leaf)
	at, size := uintptr(unsafe.Pointer(into)), unsafe.Sizeof(*into)
	pid, errno := forkOn(unix.SYS_CLONE3, at, size, 0, 0, 0, p, &p.g)
	if refused(errno) {
		const flags = unix.CLONE_SETTLS | unix.CLONE_PIDFD | uintptr(unix.SIGCHLD)
		tls := uintptr(into.tls) // the fourth argument on arm64, the fifth on amd64; the other is not used
		p.joins = true
		pid, errno = forkOn(unix.SYS_CLONE, flags, uintptr(into.stack+into.stackSize), uintptr(into.pidfd),
			tls, tls, p, &p.g)
	}
	p.pid, p.errno = int32(pid), uint32(errno)
	raw.Exit(0)
}
