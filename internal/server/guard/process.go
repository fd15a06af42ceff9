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

// Options describe the guard that Fork makes.
type Options struct {
	// Name is the guard's comm, at most 15 bytes, and its command line; that of a server is guard-ID, which
	// tag reads.
	Name string
	Argv []string // of a helper; the numbers of the page's file and of its socket follow
	Env  []string // of a helper
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
	argv     [argumentsMost]uintptr // of a helper
	args     int
	env      uintptr
	texts    memory // argv and env
	near     bool
	readable bool // by other processes of this user
	copies   bool // the launcher has a Go runtime, and so memory that no guard should have
	// leader is a process that has led a group, and ended. It is kept if the main process wants it.
	leader      int32
	keepsLeader bool
}

// memory is a part of the address space.
type memory struct{ at, size uintptr }

const (
	argumentsMost = 8
	numbers       = 2 // arguments that startGo appends: memory file and socket
	mostKept      = 32
)

// process is the part that both kinds of guards have. It is at the beginning of their memory.
type process struct {
	child        child
	page         *page.Page
	lasting      lasting
	replaces     bool       // it has the group from the launcher, by inheritance
	launcherSock int32      // of the process that has forked it
	signals      int32      // signalfd
	variables    [2]uintptr // where those of a raw launcher begin and end: a guard needs none
	keeps        keepList
	info         [16]uint64 // the last signal
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
		if e != 0 && e != syscall.EINTR && p.child.cgroup >= 0 { // a member may have removed the leaf
			p.child.cgroup = -1
			reapLeader(p.child.between)
			p.child.between = 0
			e = p.forkGuard()
		}
		if l.keepsLeader && e == 0 {
			l.leader = p.child.between
		} else {
			reapLeader(p.child.between)
		}
		closeFD(signals)
		if e == 0 {
			on.ByGuard.GuardPID = p.child.pid
		}
		g = page.Guard{Page: on, Sock: int(ends[0]), PIDFD: int(p.child.pidfd)}
		p.child.unmap()
	}
	closeFD(ends[1])
	if e != 0 { // if a guard was forked nevertheless, it ends with its socket
		closeFD(ends[0])
		closeFD(int32(g.PIDFD))
		g.Sock = -1
		g.PIDFD = -1
	}
	return g, e
}

func (p *process) forkGuard() syscall.Errno {
	if p.lasting.near {
		return p.child.forkHere(shareNothing, noExitSignal)
	}
	return p.child.forkBetween()
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
	addr, e := mapChild(size, kind)
	if e != 0 {
		closeFD(int32(signals))
		return nil, e
	}
	if gate.Wanted {
		g := *(**gateGuard)(unsafe.Pointer(&addr))
		g.gate = *gate
		g.page = on
	} else {
		g := *(**serverGuard)(unsafe.Pointer(&addr))
		g.page = on
		g.stop.page = on
	}
	p := *(**process)(unsafe.Pointer(&addr))
	p.page = on
	p.lasting = *l
	p.child.cgroup = on.FD.Leaf
	// Not that of a gateway: a watcher forks the next one in the leaf of guards, where the process between
	// would be a second one for a moment.
	if kind == roleGuard {
		p.child.name = uintptr(unsafe.Pointer(&p.lasting.name))
	}
	limitWithoutTag(&p.child.locks)
	if !l.copies {
		p.variables[0], p.variables[1] = zeroed()
	}
	p.launcherSock = sock
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
// texts of helpers. Neither its page tables are copied nor, as the launcher goes on, its pages. Holes in the
// range do no harm (ENOMEM). The kernel leaves 128 MB or more between the stack and all other mappings.
// The main process borrows the memory until its exec, and copies nothing.
func (p *process) leaveOut() {
	if p.lasting.near && copiesAll() {
		keepInForks(ownMemory()) // an earlier guard may have left it out
		return
	}
	addr, size := ownMemory()
	sys(unix.SYS_MADVISE, addr, size, unix.MADV_DONTFORK, 0, 0)
	keepInForks(uintptr(unsafe.Pointer(p)), p.child.size)
	keepInForks(uintptr(unsafe.Pointer(p.page)), page.Size)
	keepInForks(p.lasting.texts.at, p.lasting.texts.size)
}

// copiesAll reports whether a child needs a copy of all memory. The loader of a position-independent program
// has registered some to which the kernel writes (rseq(2)), and a child without that is killed. A guard that
// is no child is forked by a process that borrows the memory, and has no such registration. Any other program
// has no loader, and is linked below 4 GB.
func copiesAll() bool { return writable() >= 1<<32 }

// ownMemory is all but code and stack.
func ownMemory() (addr, size uintptr) {
	const below = 16 << 20 // the arguments, where the stack begins
	addr = writable() &^ uintptr(os.Getpagesize()-1)
	top := uintptr(unsafe.Pointer(unsafe.StringData(os.Args[0])))
	return addr, top - below - addr
}

func keepInForks(addr, size uintptr) { sys(unix.SYS_MADVISE, addr, size, unix.MADV_DOFORK, 0, 0) }

// CommandLine is where the arguments of this process are: see Options.Hide.
func CommandLine() (ends [2]uintptr) {
	last := os.Args[len(os.Args)-1]
	ends[0] = address(os.Args[0])
	ends[1] = address(last) + uintptr(len(last))
	return ends
}

// decimal writes a number of at most ten digits.
func decimal(to *[11]byte, n int) uintptr {
	index := len(to) - 1
	for {
		index--
		to[index] = byte('0' + n%10)
		n /= 10
		if n == 0 {
			return uintptr(unsafe.Pointer(&to[index]))
		}
	}
}

// begin is how every guard begins. One that replaces none does not write its pid: its launcher may not have
// found it, and forked another one (EINTR).
func (p *process) begin() {
	if p.replaces { // its launcher may be dead already
		p.page.ByGuard.GuardPID = ownPID()
	}
	if p.child.joins {
		enter(p.child.cgroup)
	}
	clearTag()
	freePages(p.variables[0], p.variables[1])
	p.rename()
	if !p.replaces { // there is no server yet that could trace it
		lowerOwnScore()
	}
	if p.lasting.readable {
		sys(unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 1, 0, 0, 0)
	}
	p.leaveClient()
}

// rename gives the guard a name, if it was not born with it, and a command line without the server's.
func (p *process) rename() {
	sys(unix.SYS_PRCTL, unix.PR_SET_NAME, uintptr(unsafe.Pointer(&p.lasting.name)), 0, 0, 0)
	i := 0
	for addr := p.lasting.hide[0]; addr < p.lasting.hide[1]; addr++ {
		c := byte(0)
		if p.child.role == roleGuard && i < len(p.lasting.name) {
			c = p.lasting.name[i]
		}
		**(**byte)(unsafe.Pointer(&addr)) = c
		i++
	}
}

// leaveClient drops what the guard has of the client.
func (p *process) leaveClient() {
	sys(unix.SYS_SETSID, 0, 0, 0, 0, 0)
	p.keeps.closeOthers()
}

// nextSignal returns 0 for none.
func (p *process) nextSignal() uint32 {
	addr := uintptr(unsafe.Pointer(&p.info))
	size := unsafe.Sizeof(p.info)
	n, e := sys(unix.SYS_READ, uintptr(p.signals), addr, size, 0, 0)
	if e != 0 || n != unsafe.Sizeof(p.info) {
		return 0
	}
	return uint32(p.info[0])
}

// enterScope moves the guard to the leaf beside the payload, in a scope where the manager has put the guard
// before. In a login session a user may not do that, but the manager may: a helper requests it.
func enterScope(on *page.Page) {
	if on.ByGuard.Payload < 0 {
		return
	}
	leaf, e := openAt(on.ByGuard.Payload, scopeLeaf, unix.O_DIRECTORY)
	if e != 0 {
		return // no manager has the group
	}
	on.ByGuard.Strayed = writeFile(leaf, procsFile, '0') != 0
	closeFD(leaf)
}

func enter(leaf int32) {
	if leaf >= 0 {
		writeFile(leaf, procsFile, '0')
	}
}
