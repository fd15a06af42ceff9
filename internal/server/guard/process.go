// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package guard

import (
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/page"
)

// Options are those of Fork.
type Options struct {
	// Name is the guard's comm, at most 15 bytes, and its command line; that of a server is guard-ID, which
	// tag reads.
	Name string
	Argv []string // of a brain; the numbers of the page's file and of its socket follow
	Env  []string // of a brain
	// Hide is where the arguments of this process begin and end: the guard has another command line. Some
	// gateways look for others of their kind by that, and people kill servers by it.
	Hide [2]uintptr
	// Readable leaves the page to other processes of this user: a tree has nothing else that could be listed.
	Readable bool
	// Near keeps the guard a child of this process, since init would not reap it.
	Near bool
	// Gate is for the guard of a gateway.
	Gate Gate
}

// lasting is the same for each guard of a server, however often it is replaced.
type lasting struct {
	name     [16]byte
	hide     [2]uintptr
	argv     [argumentsMost]uintptr // of a brain
	args     int
	env      uintptr
	texts    memory // argv and env
	near     bool
	readable bool // by other processes of this user
	copies   bool // the launcher has a Go runtime, and so memory that no guard should have
}

// memory is a part of the address space.
type memory struct{ at, size uintptr }

const (
	argumentsMost = 8
	numbers       = 2 // arguments of a brain that startBrain appends: memory file and socket
	mostKept      = 32
)

// process is the memory that both kinds of guards have, with the stack behind it.
type process struct {
	child
	page *page.Page
	lasting
	replaces bool // it has the group from the launcher, by inheritance

	launcherSock int32 // of the process that has forked it
	signals      int32 // signalfd
	keeps        keepList
	called       call
	polls        [pollCount]unix.PollFd
	received     reception
	info         [16]uint64 // the last signal
	buf          [512]byte
}

// serverGuard is the guard of a server.
type serverGuard struct {
	process
	heard uint32 // page.News of the last word of the launcher
	files groupFiles
}

// gateGuard is the guard of a gateway.
type gateGuard struct {
	process
	gate Gate
}

// keepList are the descriptors that a guard has. The first ones are for brains, too.
type keepList struct {
	fds    [mostKept]int32
	count  int
	shared int
}

// call is the brain that the guard has started, or is about to.
type call struct {
	sock      int32 // the guard's end of its socket, or -1 without a brain
	end       int32 // the brain's end, until it executes its program
	pid       int32
	deaths    int               // of brains, one after the other
	at        int64             // when a brain is started, or 0
	patience  int64             // when a brain that was continued is killed, or 0
	dueSeen   int64             // BrainReactsBy that had passed
	postponed int64             // for how long at the last time: see postponeSettling
	digits    [numbers][11]byte // arguments
}

// reception has the descriptors that came with the last word.
type reception struct {
	rights    rights
	truncated bool // there was no room for the descriptors
}

// rights is struct cmsghdr with room for descriptors.
type rights struct {
	header unix.Cmsghdr
	fds    [4]int32
}

// Fork starts the guard, before there is a group: from then on the launcher's death leaves nothing. It makes
// the calling process undumpable, before there is a server that could open the page.
func Fork(on *page.Page, o *Options) (*page.Guard, error) {
	l, err := newLasting(o)
	if err != nil {
		return nil, err
	}
	return fork(on, l, o)
}

func fork(on *page.Page, l *lasting, o *Options) (*page.Guard, error) {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("refuse to be traced: %w", err)
	}
	g, errno := l.fork(on, &o.Gate, false)
	if errno != 0 {
		return nil, fmt.Errorf("fork the guard: %w", errno)
	}
	return &g, nil
}

func newLasting(o *Options) (*lasting, error) {
	written, texts, errno := mapLists([][]string{o.Argv, o.Env})
	if errno != 0 {
		return nil, fmt.Errorf("prepare the guard: %w", errno)
	}
	l := &lasting{
		hide: o.Hide, env: addressOf(written[1]), texts: texts, args: len(o.Argv),
		near: o.Near, readable: o.Readable, copies: true,
	}
	copy(l.name[:len(l.name)-1], o.Name)
	copy(l.argv[:argumentsMost-numbers-1], written[0][:len(o.Argv)])
	return l, nil
}

// Early is Fork for a gateway that has no Go runtime yet. argv is that of a watcher, without its numbers. An
// unused guard ends with its socket.
func Early(on *page.Page, name string, argv *[4]uintptr, env uintptr, hide [2]uintptr) (g page.Guard,
	errno syscall.Errno) {
	if _, errno = sys(unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 0, 0, 0, 0); errno != 0 {
		return g, errno
	}
	var pid [11]byte
	argv[2] = decimal(&pid, unix.Getpid())
	l := lasting{hide: hide, env: env, args: len(argv)}
	copy(l.name[:len(l.name)-1], name)
	for i, argument := range argv {
		l.argv[i&(argumentsMost-1)] = argument
	}
	gate := Gate{Wanted: true}
	return l.fork(on, &gate, false)
}

// fork starts a guard. One that replaces another has the group already. It tries again if a process is killed
// that is on the way.
func (l *lasting) fork(on *page.Page, gate *Gate, replaces bool) (g page.Guard, errno syscall.Errno) {
	for try := 0; try < forkTries; try++ {
		g, errno = l.forkOnce(on, gate, replaces)
		if errno != syscall.EINTR {
			break
		}
	}
	return g, errno
}

const forkTries = 100

func (l *lasting) forkOnce(on *page.Page, gate *Gate, replaces bool) (g page.Guard, errno syscall.Errno) {
	g.PIDFD = -1
	var ends [2]int32
	e := socketPair(&ends)
	if e != 0 {
		return g, e
	}
	p, e := l.newProcess(on, gate, ends[1])
	if e == 0 {
		p.replaces = replaces
		if replaces {
			p.keeps.add(on.ByGuard.Payload)
		}
		if l.copies {
			p.leaveOut()
		}
		signals := p.signals // the guard changes p
		e = p.forkGuard()
		if e != 0 && p.cgroup >= 0 { // a member may have removed the leaf
			p.cgroup = -1
			e = p.forkGuard()
		}
		closeFD(signals)
		if e == 0 {
			on.ByGuard.GuardPID = p.pid // it writes that, too
		}
		g = page.Guard{Page: on, Sock: int(ends[0]), PIDFD: int(p.pidfd)}
		p.unmap()
	}
	closeFD(ends[1])
	if e != 0 { // a guard that there is nevertheless ends with its socket
		closeFD(ends[0])
		closeFD(int32(g.PIDFD))
		g.Sock = -1
		g.PIDFD = -1
	}
	return g, e
}

func (p *process) forkGuard() syscall.Errno {
	if p.near {
		return p.forkHere(0, 0)
	}
	return p.forkBetween()
}

// newProcess maps and fills the memory of a guard. It needs no heap.
func (l *lasting) newProcess(on *page.Page, gate *Gate, sock int32) (*process, syscall.Errno) {
	caught := ^uint64(1 << (unix.SIGCONT - 1)) // it only continues
	const quiet = unix.SFD_CLOEXEC | unix.SFD_NONBLOCK
	signals, e := sys(unix.SYS_SIGNALFD4, ^uintptr(0), uintptr(unsafe.Pointer(&caught)), 8, quiet, 0)
	if e != 0 {
		return nil, e
	}
	size := unsafe.Sizeof(serverGuard{})
	kind := roleGuard
	if gate.Wanted {
		size = unsafe.Sizeof(gateGuard{})
		kind = roleGate
	}
	at, e := mapChild(size, kind)
	if e != 0 {
		closeFD(int32(signals))
		return nil, e
	}
	if gate.Wanted {
		(*(**gateGuard)(unsafe.Pointer(&at))).gate = *gate
	}
	p := *(**process)(unsafe.Pointer(&at))
	p.page = on
	p.lasting = *l
	p.cgroup = on.FD.Leaf
	p.launcherSock = sock
	p.called.sock = -1
	p.signals = int32(signals)
	for _, fd := range on.Descriptors() {
		p.keeps.add(fd)
	}
	p.keeps.add(on.Memory)
	p.keeps.shared = p.keeps.count
	p.keeps.add(p.launcherSock)
	p.keeps.add(p.signals)
	return p, 0
}

// leaveOut keeps all memory out of the guard's copy (MADV_DONTFORK) but code, stack, p, its page and the
// texts of brains. Neither its page tables are copied nor, as the launcher goes on, its pages. Holes in the
// range do no harm (ENOMEM). The kernel leaves 128 MB or more between the stack and all other mappings.
// Processes that execute something borrow the memory and copy nothing.
func (p *process) leaveOut() {
	if p.near && copiesAll {
		keepInForks(ownMemory()) // an earlier guard may have left it out
		return
	}
	at, size := ownMemory()
	sys(unix.SYS_MADVISE, at, size, unix.MADV_DONTFORK, 0, 0)
	keepInForks(uintptr(unsafe.Pointer(p)), p.size)
	keepInForks(uintptr(unsafe.Pointer(p.page)), page.Size)
	keepInForks(p.texts.at, p.texts.size)
}

// ownMemory is all but code and stack.
func ownMemory() (at, size uintptr) {
	const below = 16 << 20 // the arguments, where the stack begins
	at = writable() &^ uintptr(os.Getpagesize()-1)
	top := uintptr(unsafe.Pointer(unsafe.StringData(os.Args[0])))
	return at, top - below - at
}

func keepInForks(at, size uintptr) { sys(unix.SYS_MADVISE, at, size, unix.MADV_DOFORK, 0, 0) }

// CommandLine is where the arguments of this process are: see Options.Hide.
func CommandLine() (at [2]uintptr) {
	last := os.Args[len(os.Args)-1]
	at[0] = address(os.Args[0])
	at[1] = address(last) + uintptr(len(last))
	return at
}

// decimal writes a number of at most ten digits.
func decimal(to *[11]byte, n int) uintptr {
	at := len(to) - 1
	for {
		at--
		to[at] = byte('0' + n%10)
		n /= 10
		if n == 0 {
			return uintptr(unsafe.Pointer(&to[at]))
		}
	}
}
