// SPDX-License-Identifier: Apache-2.0

//go:build linux

package spawn

import (
	"errors"
	"fmt"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/raw"
)

// CanPair tells whether a Pair can be started on this processor.
const CanPair = vforkFlags != 0

// PIDDigits is the room for a pid in an argument: no pid is longer (PID_MAX_LIMIT).
const PIDDigits = "0000000"

// Pair starts two processes in one pass: Parent, which is in nobody's tree, and below it Main, which runs before
// Parent executes anything. Parent has a copy of the address space, not a loan: however long Main's execve(2)
// takes, the caller goes on. Detach is implied; both need a Mask, and Parent ignores SIGHUP.
//
// Main may stop Parent for ever before that can do anything, so there should be a Standby.
type Pair struct {
	Parent, Main Cmd
	// PID is the index of the argument of Parent that becomes Main's pid; it begins as PIDDigits.
	PID int
	// Null is a descriptor of /dev/null, which Parent has in place of 0, 1 and 2 once Main has them; of Release it has
	// nothing then.
	Null    int
	Release []int
	// Linger is how long Parent waits before it executes anything, for Main to end at once. If all is gone by then that Main has
	// started, Birth tells how it ended, and Parent ends as well. Wake ends the wait: it is readable, or hung up.
	Linger time.Duration
	Wake   int
	// Stop is what Parent has pending then instead of a SIGTERM, SIGINT or SIGQUIT, and blocked: a Go program dies of those if they come
	// before it asks for them (see Cmd.Mask). 0 is for no other.
	Stop syscall.Signal
	// Standby has to notice the caller's death while Main is being executed; nil if nobody stands by.
	Standby *Standby
}

// Birth is what is to be heard of a Pair that was started.
type Birth struct {
	pipe         int
	parent, main string
}

// ErrParent says that it was Parent that could not be started.
var ErrParent = errors.New("start the parent")

// ofParent marks the steps of a Pair's parent.
const ofParent Step = 1 << 8

// pair is what the processes need, made before the fork.
type pair struct {
	parent, main *args
	born         uint64 // the signals that are blocked until some are ignored
	digits       *[len(PIDDigits) + 1]byte
	alone        [len(PIDDigits) + 2]byte // Main's pid and a blank
	null         int
	release      []int
	alive        int // of the standby, or -1
	lingers      bool
	within       unix.Timespec
	wake         int
	events       *byte // of Main's group
	proc         int
	children     *byte // of the calling thread, below proc
	how          unix.OpenHow
	stop         syscall.Signal
}

// Start returns as soon as Parent is there; what becomes of it and of Main is told by Birth.
func (p *Pair) Start() (*Birth, error) {
	var open descriptors
	defer open.close()
	pipe, err := open.pipe()
	if err != nil {
		return nil, err
	}
	m := &pair{null: p.Null, release: p.Release, alive: -1, stop: p.Stop}
	if p.Standby != nil {
		m.alive = p.Standby.alive
	}
	if p.Linger > 0 {
		m.prepareLinger(p, &open)
	}
	for _, of := range []struct {
		c    *Cmd
		a    **args
		step Step
	}{{&p.Parent, &m.parent, ofParent}, {&p.Main, &m.main, 0}} {
		if *of.a, err = of.c.prepare(); err != nil {
			return nil, err
		}
		if (*of.a).procs, err = open.procs(of.c.Group); err != nil {
			return nil, err
		}
		(*of.a).pipe, (*of.a).detach, (*of.a).of = pipe[1], true, of.step
	}
	held := *m.parent.mask | heldByParent
	m.parent.mask, m.born = &held, held|ignored
	defer blockTerminalStops()()
	m.digits = (*[len(PIDDigits) + 1]byte)(unsafe.Pointer(m.parent.argv[p.PID]))
	syscall.ForkLock.Lock()
	between, errno := forkPair(m)
	syscall.ForkLock.Unlock()
	runtime.KeepAlive(m)
	if errno != 0 {
		return nil, fmt.Errorf("fork: %w", errno)
	}
	raw.Reap(between)
	open.keep(pipe[0])
	return &Birth{pipe: pipe[0], parent: p.Parent.Path, main: p.Main.Path}, nil
}

// blockTerminalStops keeps ^Z from stopping the one in between, while its address space is lent to it, and the caller waits for it.
func blockTerminalStops() (restore func()) {
	runtime.LockOSThread()
	var set, was unix.Sigset_t
	set.Val[0] = 1<<(unix.SIGTSTP-1) | 1<<(unix.SIGTTIN-1) | 1<<(unix.SIGTTOU-1)
	_ = unix.PthreadSigmask(unix.SIG_BLOCK, &set, &was) // it can't fail
	return func() {
		_ = unix.PthreadSigmask(unix.SIG_SETMASK, &was, nil)
		runtime.UnlockOSThread()
	}
}

// prepareLinger makes it linger, unless it could not see whom Main leaves.
func (m *pair) prepareLinger(p *Pair, open *descriptors) {
	m.proc = open.proc()
	m.lingers, m.within, m.wake = m.proc >= 0, unix.NsecToTimespec(p.Linger.Nanoseconds()), p.Wake
	m.events, _ = syscall.BytePtrFromString("cgroup.events") // without NUL it can't fail
	m.children, _ = syscall.BytePtrFromString("thread-self/children")
	m.how = unix.OpenHow{Flags: unix.O_RDONLY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_XDEV} // Main could mount something there
}

// FD is readable when Outcome has something to tell.
func (b *Birth) FD() int { return b.pipe }

// Outcome tells, without waiting, whether it is known by now what became of the two. If both have ended, or are about to, it says
// how, or if one of them could not be started why: an error of Main's is a StartError, one of Parent's an ErrParent with that.
func (b *Birth) Outcome() (known bool, ended *unix.WaitStatus, err error) {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(b.pipe), Events: unix.POLLIN}}, 0)
	if err != nil || n == 0 {
		return false, nil, nil
	}
	m, ok, err := receive(b.pipe)
	if err != nil || !ok {
		return true, nil, err
	}
	if m.step&^ofParent == stepEnded {
		status := unix.WaitStatus(m.value)
		return true, &status, nil
	}
	start := &StartError{Step: m.step &^ ofParent, Path: b.main, Errno: syscall.Errno(m.value)}
	if m.step&ofParent != 0 {
		start.Path = b.parent
		return true, nil, fmt.Errorf("%w: %w", ErrParent, start)
	}
	return true, nil, start
}

// Close gives the descriptor of FD back.
func (b *Birth) Close() { _ = unix.Close(b.pipe) }

// descriptors are those that a start has opened.
type descriptors []int

func (d *descriptors) pipe() (ends [2]int, err error) {
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return ends, fmt.Errorf("create pipe: %w", err)
	}
	*d = append(*d, ends[0], ends[1])
	return ends, nil
}

func (d *descriptors) procs(g Group) (int, error) {
	fd, err := g.OpenProcs()
	if err == nil {
		*d = append(*d, fd)
	}
	return fd, err
}

// proc is where processes are looked at, -1 where that is not so.
func (d *descriptors) proc() int {
	fd, err := unix.Open("/proc", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1
	}
	*d = append(*d, fd)
	var st unix.Statfs_t
	if unix.Fstatfs(fd, &st) != nil || int64(st.Type) != unix.PROC_SUPER_MAGIC {
		return -1
	}
	return fd
}

// keep leaves some of them open.
func (d *descriptors) keep(fds ...int) {
	for i, fd := range *d {
		for _, kept := range fds {
			if fd == kept {
				(*d)[i] = -1
			}
		}
	}
}

func (d *descriptors) close() {
	for _, fd := range *d {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}

// forkPair returns the pid of the process in between in the caller; elsewhere it does not return. As in fork, what
// borrows an address space runs on the stack of this frame.
//
//go:noinline
//go:norace
//go:nocheckptr
func forkPair(p *pair) (int, syscall.Errno) {
	lent := raw.CloneArgs{Flags: unix.CLONE_INTO_CGROUP | vforkFlags, ExitSignal: uint64(syscall.SIGCHLD), Cgroup: uint64(p.main.group)}
	raw.BeforeFork()
	between, errno := vfork(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD)|vforkFlags, 0)
	if errno != 0 || between != 0 {
		raw.AfterFork()
		return int(between), syscall.Errno(errno)
	}
	raw.AfterForkInChild()
	_, _, _ = syscall.RawSyscall(syscall.SYS_SETPGID, 0, 0, 0) // it can't fail for a process that has executed nothing
	_, _, e := syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&p.born)), 0, unsafe.Sizeof(p.born), 0, 0)
	if e != 0 {
		fail(p.parent, stepMask, e)
	}
	own, _, _ := syscall.RawSyscall(syscall.SYS_GETPID, 0, 0, 0)
	parent, joined, e := raw.CopyInto(p.parent.group) // with that mask from its first moment on
	if e != 0 {
		fail(p.parent, stepFork, e)
	}
	if parent != 0 {
		raw.Exit(0)
	}
	_, _, _ = syscall.RawSyscall(syscall.SYS_SETPGID, 0, 0, 0)
	_, _, _ = syscall.RawSyscall(syscall.SYS_CLOSE, uintptr(p.alive), 0, 0) // -1 is none
	if !joined {
		join(p.parent)
	}
	_, _, e = syscall.RawSyscall(syscall.SYS_PRCTL, unix.PR_SET_CHILD_SUBREAPER, 1, 0)
	if e != 0 {
		fail(p.parent, stepSubreaper, e)
	}
	awaitOrphaned(own)
	main, errno := vfork(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&lent)), unsafe.Sizeof(lent))
	if errno == 0 && main == 0 {
		become(p.main, true)
	}
	if raw.Refused(errno) {
		main, errno = vfork(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD)|vforkFlags, 0)
		if errno == 0 && main == 0 {
			become(p.main, false)
		}
	}
	if errno != 0 {
		fail(p.main, stepFork, syscall.Errno(errno))
	}
	if p.main.failed {
		raw.Exit(1) // with its child, which has said why
	}
	ignoreSignals()
	for fd := uintptr(0); fd < 3; fd++ {
		_, _, _ = syscall.RawSyscall(syscall.SYS_DUP3, uintptr(p.null), fd, 0)
	}
	for i := 0; i < len(p.release); i++ {
		_, _, _ = syscall.RawSyscall(syscall.SYS_CLOSE, uintptr(p.release[i]), 0, 0)
	}
	writePID(p.digits, main)
	if p.lingers {
		linger(p, main)
	}
	exchangeSignals(p)
	become(p.parent, true)
	return 0, 0 // not reached
}

// awaitOrphaned returns when the process in between has ended. The caller waits for that one, so Main could keep the caller from going on
// by stopping it.
//
//go:nosplit
//go:norace
func awaitOrphaned(between uintptr) {
	is, _, _ := syscall.RawSyscall(syscall.SYS_GETPPID, 0, 0, 0)
	if is != between {
		return
	}
	pidfd, _, e := syscall.RawSyscall(unix.SYS_PIDFD_OPEN, between, 0, 0)
	if e != 0 {
		return
	}
	is, _, _ = syscall.RawSyscall(syscall.SYS_GETPPID, 0, 0, 0)
	if is == between { // so the descriptor is of it, and not of another one with its pid
		fd := unix.PollFd{Fd: int32(pidfd), Events: unix.POLLIN}
		_, _, _ = syscall.RawSyscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&fd)), 1, 0, 0, 0, 0)
	}
	_, _, _ = syscall.RawSyscall(syscall.SYS_CLOSE, pidfd, 0, 0)
}

// endParent are signals that Parent is not to die of; see Pair.Stop.
const endParent = 1<<(syscall.SIGTERM-1) | 1<<(syscall.SIGINT-1) | 1<<(syscall.SIGQUIT-1)

// heldByParent are those that wait until it can take them; SIGHUP is ignored as well.
const heldByParent = 1<<(syscall.SIGHUP-1) | endParent

//go:nosplit
//go:norace
func exchangeSignals(p *pair) {
	if p.stop == 0 {
		return
	}
	set, now := uint64(endParent), unix.Timespec{}
	pid, _, _ := syscall.RawSyscall(syscall.SYS_GETPID, 0, 0, 0)
	for i := 0; i < 3; i++ { // each is pending at most once
		_, _, e := syscall.RawSyscall6(syscall.SYS_RT_SIGTIMEDWAIT, uintptr(unsafe.Pointer(&set)), 0, uintptr(unsafe.Pointer(&now)), unsafe.Sizeof(set), 0, 0)
		if e == 0 {
			_, _, _ = syscall.RawSyscall(syscall.SYS_KILL, pid, uintptr(p.stop), 0)
		}
	}
}

// linger returns if Main goes on, or has left somebody, or if there is something to do that takes what Parent executes.
//
//go:nosplit
//go:norace
func linger(p *pair, main uintptr) {
	pidfd, _, e := syscall.RawSyscall(unix.SYS_PIDFD_OPEN, main, 0, 0) // nobody has waited for it
	if e != 0 {
		return
	}
	fds := [2]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}, {Fd: int32(p.wake), Events: unix.POLLIN}}
	_, _, _ = syscall.RawSyscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&fds[0])), 2, uintptr(unsafe.Pointer(&p.within)), 0, 0, 0)
	i := 0
	for ; i < len(PIDDigits) && p.digits[i&7] != 0; i++ {
		p.alone[i&7] = p.digits[i&7]
	}
	p.alone[i&7] = ' '
	if fds[0].Revents != 0 && fds[1].Revents == 0 && leftNobody(p) {
		var status int32
		pid, _, _ := syscall.RawSyscall6(syscall.SYS_WAIT4, main, uintptr(unsafe.Pointer(&status)), unix.WNOHANG, 0, 0, 0)
		if pid == main { // otherwise somebody traces it, who is told first
			tell(p.parent, stepEnded, uint32(status))
			raw.Exit(0)
		}
	}
	_, _, _ = syscall.RawSyscall(syscall.SYS_CLOSE, pidfd, 0, 0)
}

// leftNobody tells whether an ended Main is the last of its descendants. Whoever it has started is in its group, or is below the
// calling process, which is a subreaper; of other pid namespaces the caller of Start knows. Where one of the two can't be read
// somebody may be left.
//
//go:nosplit
//go:norace
func leftNobody(p *pair) bool {
	fd, _, e := syscall.RawSyscall6(syscall.SYS_OPENAT, uintptr(p.main.group), uintptr(unsafe.Pointer(p.events)), unix.O_RDONLY|unix.O_CLOEXEC, 0, 0, 0)
	if e != 0 || !says(fd, unsafe.StringData("populated 0\n"), '\n') {
		return false
	}
	fd, _, e = syscall.RawSyscall6(unix.SYS_OPENAT2, uintptr(p.proc), uintptr(unsafe.Pointer(p.children)), uintptr(unsafe.Pointer(&p.how)), unsafe.Sizeof(p.how), 0, 0)
	return e == 0 && says(fd, &p.alone[0], 0) // nobody but Main, of which it has the status yet
}

// says tells whether a file begins with a text, or is no more than that where it ends with NUL, and closes it.
//
//go:nosplit
//go:norace
func says(fd uintptr, text *byte, last byte) bool {
	var buf [64]byte
	_, _, e := syscall.RawSyscall(syscall.SYS_READ, fd, uintptr(unsafe.Pointer(&buf)), unsafe.Sizeof(buf))
	_, _, _ = syscall.RawSyscall(syscall.SYS_CLOSE, fd, 0, 0)
	for i := uintptr(0); e == 0 && i < unsafe.Sizeof(buf); i++ {
		want := *(*byte)(unsafe.Add(unsafe.Pointer(text), i))
		if buf[i] != want {
			return false
		}
		if want == last {
			return true
		}
	}
	return false
}

// ignored are signals that Main may send to its parent, and that a Go program passes over, which has handlers of its own for them: before
// it is executed it would die of them. Those from 34 on are real-time signals. SIGHUP, which stays ignored, is the kernel's, for a
// process group that has a stopped member and loses the last parent in its session: Main may have stopped Parent before the process in
// between has ended. One that is pending is dropped.
const ignored uint64 = 1<<(syscall.SIGHUP-1) | 1<<(syscall.SIGUSR1-1) | 1<<(syscall.SIGUSR2-1) | 1<<(syscall.SIGPIPE-1) | 1<<(syscall.SIGALRM-1) |
	1<<(syscall.SIGSTKFLT-1) | 1<<(syscall.SIGXCPU-1) | 1<<(syscall.SIGXFSZ-1) | 1<<(syscall.SIGVTALRM-1) | 1<<(syscall.SIGPROF-1) |
	1<<(syscall.SIGIO-1) | 1<<(syscall.SIGPWR-1) | (1<<31-1)<<33

//go:nosplit
//go:norace
func ignoreSignals() {
	action := [4]uintptr{1} // SIG_IGN
	for sig := uintptr(1); sig <= 64; sig++ {
		if ignored&(1<<(sig-1)) != 0 {
			_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&action)), 0, 8, 0, 0)
		}
	}
}

// writePID writes a pid in decimal, and ends the argument after it.
//
//go:nosplit
//go:norace
func writePID(to *[len(PIDDigits) + 1]byte, pid uintptr) {
	n := 0
	for rest := pid; rest > 0 && n < len(PIDDigits); rest /= 10 {
		n++
	}
	to[n&7] = 0
	for i := n - 1; i >= 0; i-- {
		to[i&7] = byte('0' + pid%10)
		pid /= 10
	}
}
