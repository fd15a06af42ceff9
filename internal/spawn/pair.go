// SPDX-License-Identifier: Apache-2.0

//go:build linux

package spawn

import (
	"errors"
	"fmt"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// CanPair tells whether a Pair can be started on this processor.
const CanPair = vforkFlags != 0

// PIDDigits is the room for a pid in an argument: no pid is longer (PID_MAX_LIMIT).
const PIDDigits = "0000000"

// Pair starts two processes in one pass: Parent, which is in nobody's tree, and below it Main, which runs before
// Parent executes anything. Parent has a copy of the address space, not a loan: however long Main's execve(2)
// takes, the caller goes on. Detach is implied; Parent needs a Mask, and ignores SIGHUP.
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
	digits       *[len(PIDDigits) + 1]byte
	null         int
	release      []int
	alive        int // of the standby, or -1
}

// Start returns as soon as Parent is there; what becomes of it and of Main is told by Birth.
func (p *Pair) Start() (*Birth, error) {
	var open descriptors
	defer open.close()
	pipe, err := open.pipe()
	if err != nil {
		return nil, err
	}
	m := &pair{null: p.Null, release: p.Release, alive: -1}
	if p.Standby != nil {
		m.alive = p.Standby.alive
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
	held := *m.parent.mask | 1<<(syscall.SIGHUP-1) // see ignoreHangUp
	m.parent.mask = &held
	m.digits = (*[len(PIDDigits) + 1]byte)(unsafe.Pointer(m.parent.argv[p.PID]))
	syscall.ForkLock.Lock()
	between, errno := forkPair(m)
	syscall.ForkLock.Unlock()
	runtime.KeepAlive(m)
	if errno != 0 {
		return nil, fmt.Errorf("fork: %w", errno)
	}
	reap(between)
	open.keep(pipe[0])
	return &Birth{pipe: pipe[0], parent: p.Parent.Path, main: p.Main.Path}, nil
}

// FD is readable when Outcome has something to tell.
func (b *Birth) FD() int { return b.pipe }

// Outcome tells, without waiting, whether it is known by now what became of the two, and if one of them could not
// be started why: then Parent has ended, or is about to. An error of Main's is a StartError, one of Parent's an
// ErrParent with that.
func (b *Birth) Outcome() (known bool, err error) {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(b.pipe), Events: unix.POLLIN}}, 0)
	if err != nil || n == 0 {
		return false, nil
	}
	m, ok, err := receive(b.pipe)
	if err != nil || !ok {
		return true, err
	}
	start := &StartError{Step: m.step &^ ofParent, Path: b.main, Errno: syscall.Errno(m.value)}
	if m.step&ofParent != 0 {
		start.Path = b.parent
		return true, fmt.Errorf("%w: %w", ErrParent, start)
	}
	return true, start
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
	copied := cloneArgs{flags: unix.CLONE_INTO_CGROUP, exitSignal: uint64(syscall.SIGCHLD), cgroup: uint64(p.parent.group)}
	lent := cloneArgs{flags: unix.CLONE_INTO_CGROUP | vforkFlags, exitSignal: uint64(syscall.SIGCHLD), cgroup: uint64(p.main.group)}
	beforeFork()
	between, errno := vfork(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD)|vforkFlags, 0)
	if errno != 0 || between != 0 {
		afterFork()
		return int(between), syscall.Errno(errno)
	}
	afterForkInChild()
	setMask(p.parent) // from its first moment on
	parent, joined, e := copyInto(&copied)
	if e != 0 {
		fail(p.parent, stepFork, e)
	}
	if parent != 0 {
		exit(0)
	}
	_, _, _ = syscall.RawSyscall(syscall.SYS_SETPGID, 0, 0, 0)              // it can't fail for a process that has executed nothing
	_, _, _ = syscall.RawSyscall(syscall.SYS_CLOSE, uintptr(p.alive), 0, 0) // -1 is none
	if !joined {
		join(p.parent)
	}
	_, _, e = syscall.RawSyscall(syscall.SYS_PRCTL, unix.PR_SET_CHILD_SUBREAPER, 1, 0)
	if e != 0 {
		fail(p.parent, stepSubreaper, e)
	}
	main, errno := vfork(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&lent)), unsafe.Sizeof(lent))
	if errno == 0 && main == 0 {
		become(p.main, true)
	}
	if refused(errno) {
		main, errno = vfork(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD)|vforkFlags, 0)
		if errno == 0 && main == 0 {
			become(p.main, false)
		}
	}
	if errno != 0 {
		fail(p.main, stepFork, syscall.Errno(errno))
	}
	if p.main.failed {
		exit(1) // with its child, which has said why
	}
	ignoreHangUp()
	for fd := uintptr(0); fd < 3; fd++ {
		_, _, _ = syscall.RawSyscall(syscall.SYS_DUP3, uintptr(p.null), fd, 0)
	}
	for i := 0; i < len(p.release); i++ {
		_, _, _ = syscall.RawSyscall(syscall.SYS_CLOSE, uintptr(p.release[i]), 0, 0)
	}
	writePID(p.digits, main)
	become(p.parent, true)
	return 0, 0 // not reached
}

// ignoreHangUp drops a SIGHUP that is pending. The kernel sends one to a process group that has a stopped member and loses
// the last parent in its session: Main may have stopped Parent before the process in between has ended.
//
//go:nosplit
//go:norace
func ignoreHangUp() {
	action := [4]uintptr{1} // SIG_IGN
	_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(syscall.SIGHUP), uintptr(unsafe.Pointer(&action)), 0, 8, 0, 0)
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
