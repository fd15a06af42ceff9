// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package guard

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Server describes the main process.
type Server struct {
	Path      string
	Argv, Env []string
	Pgid      int          // process group to join; 0 makes a new one
	NoFile    *unix.Rlimit // RLIMIT_NOFILE; nil: the launcher's
	Locks     *unix.Rlimit // RLIMIT_LOCKS, the tag; nil: the launcher's
	Mask      uint64       // blocked signals: signal n is bit n-1. Signals that the launcher ignores are ignored
	Shell     bool         // execute a file without "#!" by /bin/sh, as execvp(3)
}

// Options are those of Fork.
type Options struct {
	Name string   // the guard's comm, at most 15 bytes
	Argv []string // of a later brain; the numbers of the page's file and of its socket follow
	Env  []string // of a later brain
	// Readable leaves the page to other processes of this user: of a tree there is nothing else that could be listed.
	Readable bool
}

const (
	stackSize = 2 * 4096
	mostKept  = 32
)

// process is all the memory that the guard has, with a stack and the strings behind it. Launcher and guard share the
// mapping, so that no page of it is copied.
type process struct {
	page     *Page
	g        goroutine
	tls      [4]uintptr
	pid      int32 // pid, pidfd and errno are for the launcher, by the process between
	pidfd    int32
	errno    uint32
	name     [16]byte
	sock     int32
	brainEnd int32 // number of the brain's end of the socket
	signals  int32 // signalfd
	null     int32
	state    int32           // /proc/PID/stat of the launcher
	slow     int             // times that a brain got more time
	home     int32           // leaf that the guard lives in
	cgroup   int32           // /proc/self/cgroup and /proc/thread-self/children; both opened before there is a server, which could mount
	children int32           // something over /proc
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

// Fork starts the guard, before there is a group: from then on the launcher's death leaves nothing. The server is prepared
// here and starts by Go. Without one (nil) the main process is not the guard's child. Fork makes the calling process
// undumpable before there is a server that could open the page.
func Fork(page *Page, s *Server, o *Options) (*Guard, error) {
	if o.Readable {
		defer unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) // the guard's copy of this process stays as it is
	} else if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("refuse to be traced: %w", err)
	}
	var opened []int
	defer func() {
		for _, fd := range opened {
			_ = unix.Close(fd)
		}
	}()
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("create socket: %w", err)
	}
	brainEnd := ends[0]
	opened = append(opened, ends[0], ends[1])
	signals, err := unix.Signalfd(-1, caught(), unix.SFD_CLOEXEC|unix.SFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("create signalfd: %w", err)
	}
	opened = append(opened, signals)
	state, err := unix.Open("/proc/self/stat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open our own state: %w", err)
	}
	opened = append(opened, state)
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open /dev/null: %w", err)
	}
	opened = append(opened, null)

	argv := append(append([]string(nil), o.Argv...), strconv.Itoa(page.Memory()), strconv.Itoa(brainEnd))
	p, memory, err := newProcess(s, argv, o.Env)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.MunmapPtr(unsafe.Pointer(p), uintptr(memory)) }()
	p.page = page
	copy(p.name[:len(p.name)-1], o.Name)
	p.sock, p.brainEnd, p.signals, p.null, p.home, p.state = int32(ends[1]), int32(brainEnd), int32(signals), int32(null), page.Leaf, int32(state)
	for _, fd := range append(page.descriptors(), &page.memory, &p.brainEnd, &p.sock, &p.signals, &p.null, &p.state) {
		if *fd >= 0 {
			p.keep[p.kept] = *fd
			p.kept++
		}
	}
	p.shared = p.kept - 4
	for i, fd := range []int32{p.sock, p.signals, page.Stdin, page.Stdout, page.Client} {
		p.polls[i] = unix.PollFd{Fd: fd, Events: unix.POLLIN}
	}
	leaveOut()
	between, errno := fork(p)
	if errno == 0 {
		reap(between)
		errno = syscall.Errno(p.errno)
	}
	if errno != 0 {
		return nil, fmt.Errorf("fork the guard: %w", errno)
	}
	opened = opened[1:]   // the brain's end stays
	page.GuardPID = p.pid // the guard itself may not have run yet
	return &Guard{page: page, sock: brainEnd, pidfd: int(p.pidfd)}, nil
}

// caught are the signals that the guard reads from a descriptor. SIGCONT comes with each byte, see wakeBySocket.
func caught() *unix.Sigset_t {
	set := &unix.Sigset_t{}
	set.Val[0] = ^uint64(1 << (unix.SIGCONT - 1))
	return set
}

// newProcess maps and fills the guard's memory.
func newProcess(s *Server, argv, env []string) (*process, int, error) {
	const fixed = (unsafe.Sizeof(process{})+4095)&^4095 + stackSize
	lists := [][]string{argv, env}
	var shellArgv []string
	if s != nil {
		shellArgv = append([]string{"/bin/sh", s.Path}, s.Argv[min(1, len(s.Argv)):]...)
		lists = append(lists, []string{s.Path, shellArgv[0]}, s.Argv, s.Env, shellArgv)
	}
	size := int(fixed)
	for _, list := range lists {
		size += 8 + 7 // the end, and the alignment before it
		for _, text := range list {
			size += len(text) + 1 + 8
			if bytes.IndexByte(unsafe.Slice(unsafe.StringData(text), len(text)), 0) >= 0 {
				return nil, 0, fmt.Errorf("argument %q: %w", text, unix.EINVAL)
			}
		}
	}
	at, err := unix.MmapPtr(-1, 0, nil, uintptr(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS|unix.MAP_POPULATE)
	if err != nil {
		return nil, 0, fmt.Errorf("map the guard's memory: %w", err)
	}
	p := (*process)(at)
	rest := arena(unsafe.Slice((*byte)(at), size)[fixed:])
	p.argv, p.env = rest.list(argv), rest.list(env)
	stackTop := uintptr(at) + fixed
	p.tls[2] = uintptr(unsafe.Pointer(&p.g))
	p.clone = cloneArgs{
		flags: unix.CLONE_INTO_CGROUP | unix.CLONE_CLEAR_SIGHAND | unix.CLONE_SETTLS | unix.CLONE_PIDFD, exitSignal: uint64(unix.SIGCHLD),
		pidfd: uint64(uintptr(unsafe.Pointer(&p.pidfd))), tls: uint64(uintptr(unsafe.Pointer(&p.tls[3]))),
		stack: uint64(stackTop - stackSize), stackSize: stackSize,
	}
	if s == nil {
		return p, size, nil
	}
	m := &p.main
	m.wanted = true
	m.argv, m.env, m.path = rest.list(s.Argv), rest.list(s.Env), rest.string(s.Path)
	if s.Shell {
		m.shellArgv = rest.list(shellArgv)
		m.shell = rest.string(shellArgv[0])
	}
	m.pgid, m.mask = uintptr(s.Pgid), s.Mask
	if s.NoFile != nil {
		m.nofile, m.limitsFiles = *s.NoFile, true
	}
	if s.Locks != nil {
		m.locks, m.limitsLocks = *s.Locks, true
	}
	return p, size, nil
}

// arena is memory for strings as execve(2) wants them.
type arena []byte

func (a *arena) take(n int) []byte {
	part := (*a)[:n:n]
	*a = (*a)[n:]
	return part
}

func (a *arena) string(s string) uintptr {
	text := a.take(len(s) + 1)
	copy(text, s)
	return uintptr(unsafe.Pointer(&text[0]))
}

func (a *arena) list(all []string) uintptr {
	if pad := int(-uintptr(unsafe.Pointer(unsafe.SliceData(*a))) & 7); pad > 0 {
		a.take(pad)
	}
	words := a.take(8 * (len(all) + 1))
	pointers := unsafe.Slice((*uintptr)(unsafe.Pointer(&words[0])), len(all)+1)
	for i, s := range all {
		pointers[i] = a.string(s)
	}
	return uintptr(unsafe.Pointer(&words[0]))
}

// leaveOut keeps all writable memory out of the guard's copy (MADV_DONTFORK) but the command line and shared mappings.
// Neither its page tables are copied nor, as the launcher goes on, its pages. Without /proc the copy is whole. Processes
// that execute something borrow the memory and copy nothing.
func leaveOut() {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return
	}
	for line := range bytes.Lines(maps) { // "7f00-7f80 rw-p …"
		addresses, rest, _ := bytes.Cut(line, []byte(" "))
		if !bytes.HasPrefix(rest, []byte("rw-p")) || bytes.HasSuffix(rest, []byte("[stack]\n")) {
			continue
		}
		first, last, _ := bytes.Cut(addresses, []byte("-"))
		from, err := strconv.ParseUint(string(first), 16, 64)
		to, err2 := strconv.ParseUint(string(last), 16, 64)
		if err == nil && err2 == nil {
			_, _, _ = syscall.RawSyscall(unix.SYS_MADVISE, uintptr(from), uintptr(to-from), unix.MADV_DONTFORK)
		}
	}
}

// fork returns the pid of a process between, which exits at once, so that the guard is in no process tree of the client. It shares
// the caller's descriptors, so that the guard's pidfd is opened there.
//
// All signals are blocked: a handler of the runtime in a process that borrows its memory would destroy it. That the
// function has no preemption point keeps it on its thread.
//
//go:noinline
//go:nosplit
//go:norace
//go:nocheckptr
func fork(p *process) (between int, errno syscall.Errno) {
	all, before := ^uint64(0), uint64(0)
	_, e := sys(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&all)), uintptr(unsafe.Pointer(&before)), unsafe.Sizeof(all), 0)
	if e != 0 {
		return 0, e
	}
	pid, failed := vfork(unix.SYS_CLONE, vforkFlags|unix.CLONE_FILES|uintptr(unix.SIGCHLD), 0)
	if failed == 0 && pid == 0 {
		forkGuard(p)
	}
	setMask(&before)
	return int(pid), syscall.Errno(failed)
}

// forkGuard is all that the process between does.
//
//go:nosplit
//go:norace
func forkGuard(p *process) {
	sys(unix.SYS_SETPGID, 0, 0, 0, 0, 0) // the client may kill its process group
	into := &p.clone
	if p.page.Leaf < 0 {
		into.flags &^= unix.CLONE_INTO_CGROUP
	}
	into.cgroup = uint64(p.page.Leaf)
	pid, errno := forkOn(unix.SYS_CLONE3, uintptr(unsafe.Pointer(into)), unsafe.Sizeof(*into), 0, 0, 0, p, &p.g)
	if refused(errno) {
		const flags = unix.CLONE_SETTLS | unix.CLONE_PIDFD
		tls := uintptr(into.tls) // the fourth argument on arm64, the fifth on amd64; the other is not used
		p.joins = true
		pid, errno = forkOn(unix.SYS_CLONE, flags|uintptr(unix.SIGCHLD), uintptr(into.stack+into.stackSize), uintptr(into.pidfd), tls, tls, p, &p.g)
	}
	p.pid, p.errno = int32(pid), uint32(errno)
	exit(0)
}

func reap(pid int) {
	for {
		if _, err := unix.Wait4(pid, nil, unix.WALL, nil); !errors.Is(err, unix.EINTR) {
			return
		}
	}
}
