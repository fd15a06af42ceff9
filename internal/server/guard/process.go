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

// Server describes the main process.
type Server struct {
	Path      string
	Argv, Env []string
	Pgid      int         // process group to join; 0 makes a new one
	NoFile    unix.Rlimit // RLIMIT_NOFILE: the runtime has raised the launcher's
	Locks     unix.Rlimit // RLIMIT_LOCKS, the tag
	Mask      uint64      // blocked signals: signal n is bit n-1. Ignored signals stay ignored
	Stderr    int         // descriptor 2; 0: the launcher's
}

// Options are those of Fork.
type Options struct {
	Name string   // the guard's comm, at most 15 bytes
	Argv []string // of a later brain; the numbers of the page's file and of its socket follow
	Env  []string // of a later brain
	// Readable leaves the page to other processes of this user: a tree has nothing else that could be listed.
	Readable bool
	// Gate is for the guard of a gateway.
	Gate Gate
}

// Fork starts the guard, before there is a group: from then on the launcher's death leaves nothing. The
// server is prepared here and starts by Go. Without one (nil) the main process is not the guard's child. Fork
// makes the calling process undumpable before there is a server that could open the page.
func Fork(on *page.Page, s *Server, o *Options) (*page.Guard, error) {
	if o.Readable {
		defer unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) // the guard's copy of this process stays as it is
	} else if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("refuse to be traced: %w", err)
	}
	p, err := newProcess(on, s, o)
	if err != nil {
		return nil, err
	}
	defer unix.MunmapPtr(unsafe.Pointer(p), p.size)
	p.leaveOut()
	g, errno := p.start()
	if errno != 0 {
		return nil, fmt.Errorf("fork the guard: %w", errno)
	}
	return &g, nil
}

// Early is Fork for a gateway that has no Go runtime yet. argv is that of a watcher, without its numbers. An
// unused guard ends with its socket.
func Early(on *page.Page, name string, argv *[7]uintptr, env uintptr, hide [2]uintptr) (g page.Guard,
	errno syscall.Errno) {
	p, errno := mapProcess(on, 0)
	if errno == 0 {
		_, errno = sys(unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	}
	if errno != 0 {
		return g, errno
	}
	copy(p.name[:len(p.name)-1], name)
	p.gate = Gate{Wanted: true, Hide: hide}
	argv[2] = decimal(&p.numbers[numbers], unix.Getpid())
	p.argv, p.env = addressOf(argv[:]), env
	p.number(argv[4:])
	return p.start()
}

// start has what is the guard's own closed in this process.
func (p *process) start() (g page.Guard, errno syscall.Errno) {
	errno = forkBetween(p)
	closeFD(p.sock)
	closeFD(p.signals)
	if errno != 0 {
		closeFD(p.brainEnd)
	}
	p.page.GuardPID = p.pid
	return page.Guard{Page: p.page, Sock: int(p.brainEnd), PIDFD: int(p.pidfd)}, errno
}

const (
	stackSize = 2 * 4096
	mostKept  = 32
)

// process is all the memory that the guard has, with a stack and the strings behind it. Launcher and guard
// share the mapping, so that no page of it is copied.
type process struct {
	page     *page.Page
	brainEnd int32 // number of the brain's end of the socket
	sock     int32
	signals  int32   // signalfd
	size     uintptr // of the mapping
	g        goroutine
	tls      [4]uintptr
	pid      int32 // pid and pidfd are for the launcher, by the process between
	pidfd    int32
	name     [16]byte
	children int32           // /proc/thread-self/children; a server could mount something over it
	joins    bool            // clone3 was refused
	keep     [mostKept]int32 // descriptors that the guard has after the birth
	kept     int
	shared   int // the first ones of keep are for later brains, too

	main      mainProcess
	argv, env uintptr // of a later brain
	numbers   [numbers + 1][11]byte
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
	rights    struct { // as struct cmsghdr
		header unix.Cmsghdr
		fds    [4]int32
	}
	truncated bool // there was no room for the descriptors of the last word
	buf       [1024]byte
	gate      Gate
}

// leaveOut keeps all memory out of the guard's copy (MADV_DONTFORK) but code, stack, p and its page. Neither
// its page tables are copied nor, as the launcher goes on, its pages. Holes in the range do no harm (ENOMEM).
// The kernel leaves 128 MB or more between the stack and all other mappings. Processes that execute something
// borrow the memory and copy nothing.
func (p *process) leaveOut() {
	const below = 16 << 20 // the arguments, where the stack begins
	from := writable() &^ uintptr(os.Getpagesize()-1)
	top := uintptr(unsafe.Pointer(unsafe.StringData(os.Args[0])))
	sys(unix.SYS_MADVISE, from, top-below-from, unix.MADV_DONTFORK, 0, 0)
	sys(unix.SYS_MADVISE, uintptr(unsafe.Pointer(p)), p.size, unix.MADV_DOFORK, 0, 0)
	sys(unix.SYS_MADVISE, uintptr(unsafe.Pointer(p.page)), page.Size, unix.MADV_DOFORK, 0, 0)
}

// mainProcess is Server as system calls want it.
type mainProcess struct {
	path, argv, env  uintptr
	shell, shellArgv uintptr // for a file without "#!", as execvp(3)
	pgid, stderr     uintptr
	mask             uint64
	nofile, locks    unix.Rlimit
}

// fixedSize is that of a process with its stack.
const fixedSize = (unsafe.Sizeof(process{})+4095)&^4095 + stackSize

// newProcess maps and fills the guard's memory.
func newProcess(on *page.Page, s *Server, o *Options) (*process, error) {
	lists := [][]string{slices.Concat(o.Argv, make([]string, numbers)), o.Env}
	if s != nil {
		shell := append([]string{"/bin/sh", s.Path}, s.Argv[min(1, len(s.Argv)):]...)
		lists = append(lists, s.Argv, s.Env, shell)
	}
	words := len(lists) // pointers, one after each list
	size := uintptr(0)  // of the texts
	for _, text := range slices.Concat(lists...) {
		words++
		size += uintptr(len(text)) + 1
	}
	size += 8 * uintptr(words)
	p, errno := mapProcess(on, size)
	if errno != 0 {
		return nil, fmt.Errorf("prepare the guard: %w", errno)
	}
	p.gate = o.Gate
	copy(p.name[:len(p.name)-1], o.Name)
	written := writeLists(unsafe.Add(unsafe.Pointer(p), fixedSize), words, size, lists)
	p.argv, p.env = addressOf(written[0]), addressOf(written[1])
	p.number(written[0][len(o.Argv):])
	if s != nil {
		p.main = mainProcess{
			argv: addressOf(written[2]), env: addressOf(written[3]), path: written[4][1],
			shell: written[4][0], shellArgv: addressOf(written[4]),
			pgid: uintptr(s.Pgid), stderr: uintptr(s.Stderr), mask: s.Mask, nofile: s.NoFile, locks: s.Locks,
		}
	}
	return p, nil
}

// numbers is how many arguments of a later brain number adds.
const numbers = 2

// number adds the numbers of the page's file and of the brain's socket.
func (p *process) number(argv []uintptr) {
	argv[0], argv[1] = decimal(&p.numbers[0], int(p.page.Memory)), decimal(&p.numbers[1], int(p.brainEnd))
}

// decimal writes a number of at most ten digits.
func decimal(to *[11]byte, n int) uintptr {
	at := len(to) - 1
	for {
		at--
		to[at] = byte('0' + n%10)
		if n /= 10; n == 0 {
			return uintptr(unsafe.Pointer(&to[at]))
		}
	}
}

// mapProcess makes a process with room behind it for texts. It needs no heap.
func mapProcess(on *page.Page, room uintptr) (*process, syscall.Errno) {
	var ends [2]int32
	const way = unix.SOCK_STREAM | unix.SOCK_CLOEXEC
	if _, e := sys(unix.SYS_SOCKETPAIR, unix.AF_UNIX, way, 0, uintptr(unsafe.Pointer(&ends)), 0); e != 0 {
		return nil, e
	}
	caught := ^uint64(1 << (unix.SIGCONT - 1)) // it only continues
	const quiet = unix.SFD_CLOEXEC | unix.SFD_NONBLOCK
	signals, e := sys(unix.SYS_SIGNALFD4, ^uintptr(0), uintptr(unsafe.Pointer(&caught)), 8, quiet, 0)
	if e != 0 {
		return nil, e
	}
	const access = unix.PROT_READ | unix.PROT_WRITE
	const how = unix.MAP_SHARED | unix.MAP_ANONYMOUS | unix.MAP_POPULATE
	at, _, e := syscall.RawSyscall6(unix.SYS_MMAP, 0, fixedSize+room, access, how, ^uintptr(0), 0)
	if e != 0 {
		return nil, e
	}
	p := *(**process)(unsafe.Pointer(&at))
	p.brainEnd, p.sock, p.signals = ends[0], ends[1], int32(signals)
	p.page, p.size = on, fixedSize+room
	p.tls[2] = uintptr(unsafe.Pointer(&p.g))
	p.clone = cloneArgs{
		flags:      unix.CLONE_INTO_CGROUP | unix.CLONE_CLEAR_SIGHAND | unix.CLONE_SETTLS | unix.CLONE_PIDFD,
		exitSignal: uint64(unix.SIGCHLD),
		pidfd:      uint64(uintptr(unsafe.Pointer(&p.pidfd))),
		tls:        uint64(uintptr(unsafe.Pointer(&p.tls[3]))),
		stack:      uint64(at + fixedSize - stackSize), stackSize: stackSize,
	}
	for _, fd := range on.Descriptors() {
		p.alsoKeep(fd)
	}
	p.alsoKeep(on.Memory)
	p.alsoKeep(p.brainEnd)
	p.shared = p.kept
	p.alsoKeep(p.sock)
	p.alsoKeep(p.signals)
	for i, fd := range [...]int32{p.sock, p.signals, on.Stdin, on.Stdout, on.Client} {
		p.polls[i] = unix.PollFd{Fd: fd, Events: unix.POLLIN}
	}
	return p, 0
}

// writeLists writes lists of strings as execve(2) wants them: all pointers first. The memory is zero.
func writeLists(at unsafe.Pointer, words int, size uintptr, lists [][]string) (written [][]uintptr) {
	pointers := unsafe.Slice((*uintptr)(at), words)
	texts := unsafe.Slice((*byte)(at), size)[8*words:]
	for _, list := range lists {
		written = append(written, pointers)
		for i, text := range list {
			pointers[i] = uintptr(unsafe.Pointer(&texts[0]))
			texts = texts[copy(texts, text)+1:]
		}
		pointers = pointers[len(list)+1:]
	}
	return written
}

func addressOf(list []uintptr) uintptr { return uintptr(unsafe.Pointer(&list[0])) }
