// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

// Package page is the memory page that launcher, guard and later brains share, in place of a protocol.
// A byte on their socket means that there is something new on it, and the end of the socket means that the
// other process is dead.
package page

import (
	"errors"
	"fmt"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Running is the last phase in which nothing stops the server. The guard compares Page.Phase with it and
// gives the other phases no meaning: those below it come before, those above it stop the server.
const Running = 1

// Page is the shared memory. Times are those of CLOCK_MONOTONIC in nanoseconds. Descriptors have the same
// number in all of these processes, and -1 stands for none.
type Page struct {
	// The launcher writes these before it forks the guard.
	Stdin, Stdout int32 // epoll sets, readable after an event that the launcher should notice
	Client        int32 // pidfd, the same
	Launcher      int32 // pidfd
	Program       int32 // O_PATH descriptor of the program that a later brain executes
	Leaf          int32 // directory of the cgroup for guards and later brains; none in a tree
	Parent        int32 // directory above those of SetDirectories
	Keep          int32 // for a report, or for a gateway's explanations
	Graceless     bool  // nothing waits for a server whose launcher died
	Unproven      bool  // of a gateway's server: see launcher.Server.Unproven

	// The brain writes these.
	Phase uint32
	Cause uint32
	Until int64 // end of the phase
	Due   int64 // by then nothing should be left; 0 for no such time. Guard.Look announces a change

	// The guard writes these, and sends a byte.
	Payload    int32  // directory of the group, in guard and later brains; the lock on it is the guard's too
	Reign      uint32 // number of brains before; a brain that finds another number has been replaced
	GuardPID   int32
	MainPID    int32
	Exited     bool   // and Status is there
	Status     uint32 // as of wait4(2)
	Childless  bool   // the guard has no child, and so no descendant
	Stops      uint32 // how often a signal has stopped the main process
	StopSignal uint32
	Requests   uint64 // signals that other processes have sent to the guard: signal n is bit n-1
	FailedStep Step
	Errno      uint32

	Asked       uint32 // counts the guard's questions whether the brain reacts
	Answered    uint32 // set to Asked as soon as the brain reacts
	Directories [1024]byte
	Refusal     [512]byte // why a watcher can't contain servers
	// Held are the calls that a watcher judges (struct seccomp_notif), for the next one. Further callers
	// wait in the kernel.
	Held   [HeldMost][10]uint64
	Memory int32  // the memory file
	size   uint32 // of the configuration
}

// Kept are the descriptors that a gateway's guard has of a server, for the next watcher: those that nothing
// else could be made of again. -1 stands for none, and Payload is 0 without a server: descriptor 0 is never
// one of these, and the holes in a file are zero.
type Kept struct {
	Payload int32 // the directory of the group, with its lock
	Memory  int32 // the file of the server's page
	Stdin   int32 // epoll set: its main process may have closed the descriptor, or refuse to be asked for it
	Stdout  int32 // the same
}

const keptSize = int64(unsafe.Sizeof(Kept{}))

// HeldMost is the number of calls that a watcher judges at once.
const HeldMost = 128

// Step names the failure, in the guard or in the main process before its exec.
type Step uint32

// The steps. A failed exec is status 126 or 127, by Errno; the others are 125.
const (
	StepNone Step = iota
	StepFork
	StepJoin
	StepProcessGroup
	StepLimits
	StepExec
)

var stepNames = [...]string{"", "fork", "join cgroup", "set process group", "set resource limits", "execute"}

func (s Step) String() string { return stepNames[s] }

// Size is that of a page in memory, which need not be the machine's.
const Size = 8 * 4096

const sizeMost = 8 << 20 // of a configuration: more than a command line can be

// New makes a page whose descriptors are all none. It needs no Go runtime.
func New() (*Page, unix.Errno) {
	const name = FileName + "\x00"
	at := uintptr(unsafe.Pointer(unsafe.StringData(name)))
	fd, _, errno := unix.RawSyscall(unix.SYS_MEMFD_CREATE, at, unix.MFD_CLOEXEC, 0)
	if errno == 0 {
		_, _, errno = unix.RawSyscall(unix.SYS_FTRUNCATE, fd, Size, 0)
	}
	if errno == 0 {
		const access = unix.PROT_READ | unix.PROT_WRITE
		at, _, errno = unix.RawSyscall6(unix.SYS_MMAP, 0, Size, access, unix.MAP_SHARED, fd, 0)
	}
	if errno != 0 {
		return nil, errno
	}
	p := *(**Page)(unsafe.Pointer(&at))
	p.Memory, p.Payload = int32(fd), -1
	for i := range p.Descriptors() {
		p.Descriptors()[i] = -1
	}
	return p, 0
}

// Open maps the page of a memory file, in a later brain.
func Open(fd int) (*Page, error) {
	at, err := unix.MmapPtr(fd, 0, nil, Size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map memory file: %w", err)
	}
	return (*Page)(at), nil
}

// GatewayGuard is the comm of the guard of a gateway.
const GatewayGuard = "mcpscope-guard"

// FileName is how the page's file is called in /proc/PID/fd.
const FileName = "mcpscope"

// Read is for a process that only inspects a guard: the configuration and the cause. Both may be anything.
func Read(fd int) (config []byte, cause uint32, err error) {
	head := make([]byte, Size)
	if err := readAt(fd, head, 0); err != nil {
		return nil, 0, err
	}
	p := (*Page)(unsafe.Pointer(&head[0]))
	p.Memory = int32(fd)
	config, err = p.Config()
	return config, p.Cause, err
}

// Close gives back what this process has of the page. The guard has its own.
func (p *Page) Close() {
	for _, fd := range []int32{p.Memory, p.Program, p.Launcher} {
		_ = unix.Close(int(fd)) // nothing to flush
	}
	_ = unix.MunmapPtr(unsafe.Pointer(p), Size) // it was mapped whole
}

// Descriptors are those that guard and later brains inherit.
func (p *Page) Descriptors() []int32 {
	return unsafe.Slice(&p.Stdin, unsafe.Offsetof(p.Keep)/unsafe.Sizeof(p.Stdin)+1)
}

// SetConfig writes what a later brain has to know, behind the page. It is called once, before there is a
// server.
func (p *Page) SetConfig(config []byte) error {
	if n, err := unix.Pwrite(int(p.Memory), config, Size); err != nil || n < len(config) {
		return fmt.Errorf("write memory file: %w", errors.Join(err, unix.ENOSPC))
	}
	p.size = uint32(len(config))
	return nil
}

func (p *Page) Config() ([]byte, error) {
	config := make([]byte, min(p.size, sizeMost))
	return config, readAt(int(p.Memory), config, Size)
}

func readAt(fd int, to []byte, at int64) error {
	if n, err := unix.Pread(fd, to, at); err != nil || n < len(to) {
		return fmt.Errorf("read memory file: %w", errors.Join(err, unix.EIO))
	}
	return nil
}

// SetDirectories names what the guard removes if no brain can: paths below Parent, in this order. It is
// called before the first of them is made.
func (p *Page) SetDirectories(paths ...string) error {
	text := strings.Join(paths, "\x00") + "\x00\x00"
	if len(text) > len(p.Directories) {
		return fmt.Errorf("remember directories: %w", unix.ENAMETOOLONG)
	}
	clear(p.Directories[copy(p.Directories[:], text):])
	return nil
}

var _ [Size - unsafe.Sizeof(Page{})]byte // a page is enough

// Bytes that a brain sends. The guard of a server sends WordLook alone, and that of a gateway only answers:
// an errno, or 0.
const (
	WordLook    = 1   // Page.Due or the answer to a question is new
	WordGo      = 2   // the group is there, and comes with it
	WordDone    = 3   // the group is removed
	WordReady   = 4   // a watcher answers from now on
	WordKeep    = 5   // a gateway has one more server: a whole Message, with its Kept
	WordDrop    = 6   // and one less: a whole Message. Both are answered
	WordForward = 128 // and above: a signal for the main process, whose pid is sure for its parent alone
)

// Guard is the guard as a brain has it.
type Guard struct {
	Page  *Page
	Sock  int // readable when there is something new on the page, and at the guard's death: see Drain
	PIDFD int
}

// Attach is for a later brain, with the page and the socket of its arguments. It makes the calling process
// undumpable.
func Attach(p *Page, sock int) (*Guard, error) {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("refuse to be traced: %w", err)
	}
	for _, fd := range append(p.Descriptors(), p.Memory, p.Payload, int32(sock)) {
		unix.CloseOnExec(int(fd)) // fails for none
	}
	parent := unix.Getppid()
	pidfd, err := unix.PidfdOpen(parent, 0)
	if err != nil || parent != int(p.GuardPID) || unix.Getppid() != parent {
		_ = unix.Close(pidfd)
		return nil, fmt.Errorf("find the guard: %w", unix.ESRCH)
	}
	g := &Guard{p, sock, pidfd}
	g.Look()
	return g, nil
}

// Go starts the main process in payload, whose lock the guard shares from then on; -1 in a tree. A leaf other
// than -1 is where the guard moves afterwards. Page.FailedStep is final with the first byte; MainPID may be
// there earlier. It needs no Go runtime.
func (g *Guard) Go(payload, leaf int) unix.Errno {
	m := Message{Word: WordGo}
	return g.pass(&m, 1, [4]int32{int32(payload), int32(leaf), -1, -1})
}

// Drain reads Sock, and answers the guard, which asks whether the brain reacts. dead: the guard is. If there
// is more to read, Sock is readable again.
func (g *Guard) Drain() (dead bool) {
	var words [64]byte
	n, _, err := unix.Recvfrom(g.Sock, words[:], unix.MSG_DONTWAIT)
	if n <= 0 {
		return err != unix.EAGAIN && err != unix.EINTR
	}
	if g.Page.Answered != g.Page.Asked {
		g.Look()
	}
	return false
}

// Look announces a change of Page.Due, and is a sign of life.
func (g *Guard) Look() {
	g.Page.Answered = g.Page.Asked
	g.Send(WordLook)
}

// Send does not wait: a full socket has news enough, and the guard's death is noticed otherwise. A member may
// have stopped the guard.
func (g *Guard) Send(word byte) {
	_ = unix.PidfdSendSignal(g.PIDFD, unix.SIGCONT, nil, 0) // it has ended
	_ = unix.Sendto(g.Sock, []byte{word}, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, nil)
}
