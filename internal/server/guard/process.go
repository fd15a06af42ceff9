// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package guard

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/page"
)

const (
	stackSize = 2 * 4096
	mostKept  = 32
)

// process is all the memory that the guard has, with a stack and the strings behind it. Launcher and guard
// share the mapping, so that no page of it is copied.
type process struct {
	files
	page     *page.Page
	size     uintptr // of the mapping
	g        goroutine
	tls      [4]uintptr
	pid      int32 // pid, pidfd and errno are for the launcher, by the process between
	pidfd    int32
	errno    uint32
	name     [16]byte
	slow     int             // times that a brain got more time
	children int32           // /proc/thread-self/children; a server could mount something over it
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

// files are what the guard has from the beginning, beside those of the page.
type files struct {
	brainEnd int32 // number of the brain's end of the socket
	sock     int32
	signals  int32 // signalfd
	state    int32 // /proc/PID/stat of the launcher
	null     int32
}

// mainProcess is Server as system calls want it.
type mainProcess struct {
	wanted                   bool
	path, argv, env          uintptr
	shell, shellArgv         uintptr // 0: no fallback for ENOEXEC
	pgid                     uintptr
	mask                     uint64
	nofile, locks            unix.Rlimit
	limitsFiles, limitsLocks bool
}

// fixedSize is that of a process with its stack.
const fixedSize = (unsafe.Sizeof(process{})+4095)&^4095 + stackSize

// openOwn opens them in the launcher.
func openOwn() (f files, err error) {
	f = files{-1, -1, -1, -1, -1}
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return f, fmt.Errorf("create socket: %w", err)
	}
	f.brainEnd, f.sock = int32(ends[0]), int32(ends[1])
	var caught unix.Sigset_t
	caught.Val[0] = ^uint64(1 << (unix.SIGCONT - 1)) // it only continues
	fd, err := unix.Signalfd(-1, &caught, unix.SFD_CLOEXEC|unix.SFD_NONBLOCK)
	if f.signals = int32(fd); err != nil {
		return f, fmt.Errorf("create signalfd: %w", err)
	}
	fd, err = unix.Open("/proc/self/stat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if f.state = int32(fd); err != nil {
		return f, fmt.Errorf("open our own state: %w", err)
	}
	fd, err = unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if f.null = int32(fd); err != nil {
		return f, fmt.Errorf("open /dev/null: %w", err)
	}
	return f, nil
}

// close closes the launcher's copies.
func (f *files) close() {
	for _, fd := range []int32{f.sock, f.signals, f.state, f.null} {
		_ = unix.Close(int(fd))
	}
}

// newProcess maps and fills the guard's memory.
func newProcess(on *page.Page, f files, s *Server, o *Options) (*process, error) {
	brain := slices.Concat(o.Argv, []string{strconv.Itoa(on.Memory()), strconv.Itoa(int(f.brainEnd))})
	lists := [][]string{brain, o.Env}
	var shellArgv []string
	if s != nil {
		shellArgv = append([]string{"/bin/sh", s.Path}, s.Argv[min(1, len(s.Argv)):]...)
		lists = append(lists, []string{s.Path, shellArgv[0]}, s.Argv, s.Env, shellArgv)
	}
	more, err := sizeOf(lists)
	if err != nil {
		return nil, err
	}
	const access = unix.PROT_READ | unix.PROT_WRITE
	const how = unix.MAP_SHARED | unix.MAP_ANONYMOUS | unix.MAP_POPULATE
	at, err := unix.MmapPtr(-1, 0, nil, fixedSize+uintptr(more), access, how)
	if err != nil {
		return nil, fmt.Errorf("map the guard's memory: %w", err)
	}
	p := (*process)(at)
	p.files, p.page, p.size, p.gate = f, on, fixedSize+uintptr(more), o.Gate
	p.tls[2] = uintptr(unsafe.Pointer(&p.g))
	p.clone = cloneArgs{
		flags:      unix.CLONE_INTO_CGROUP | unix.CLONE_CLEAR_SIGHAND | unix.CLONE_SETTLS | unix.CLONE_PIDFD,
		exitSignal: uint64(unix.SIGCHLD),
		pidfd:      uint64(uintptr(unsafe.Pointer(&p.pidfd))),
		tls:        uint64(uintptr(unsafe.Pointer(&p.tls[3]))),
		stack:      uint64(uintptr(at) + fixedSize - stackSize), stackSize: stackSize,
	}
	copy(p.name[:len(p.name)-1], o.Name)
	for _, fd := range append(on.Descriptors(), int32(on.Memory()), p.brainEnd) {
		p.alsoKeep(fd)
	}
	p.shared = p.kept
	for _, fd := range []int32{p.sock, p.signals, p.null, p.state} {
		p.alsoKeep(fd)
	}
	for i, fd := range []int32{p.sock, p.signals, on.Stdin, on.Stdout, on.Client} {
		p.polls[i] = unix.PollFd{Fd: fd, Events: unix.POLLIN}
	}
	rest := arena(unsafe.Slice((*byte)(unsafe.Add(at, fixedSize)), more))
	p.argv, p.env = rest.list(brain), rest.list(o.Env)
	if s != nil {
		p.main = s.prepare(&rest, shellArgv)
	}
	return p, nil
}

func (p *process) unmap() { _ = unix.MunmapPtr(unsafe.Pointer(p), p.size) }

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

// sizeOf is the size of an arena for these lists.
func sizeOf(lists [][]string) (size int, err error) {
	for _, list := range lists {
		size += 8 + 7 // the end, and the alignment before it
		for _, text := range list {
			size += len(text) + 1 + 8
			if strings.IndexByte(text, 0) >= 0 {
				return 0, fmt.Errorf("argument %q: %w", text, unix.EINVAL)
			}
		}
	}
	return size, nil
}
