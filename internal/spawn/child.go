// SPDX-License-Identifier: Apache-2.0

//go:build linux

package spawn

import (
	"errors"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/raw"
)

// args is everything that the child needs, made before the fork, because it must
// not allocate.
type args struct {
	path   *byte
	argv   []*byte
	env    []*byte
	keep   []int
	pipe   int
	group  int // directory to be born in, or -1
	procs  int // its cgroup.procs, or -1
	nofile *unix.Rlimit
	mask   *uint64
	detach bool
}

// message is what the child says on the pipe.
type message struct {
	step  Step
	value uint32
}

// fork returns the child's pid in the caller; in a child it does not return. All the
// vforks are made in this one frame, because the children run on the caller's stack and
// overwrite what is below it. What a child changes of the variables here, its parent
// sees; so each fork has its own.
//
//go:noinline
//go:norace
//go:nocheckptr
func fork(a *args) (int, syscall.Errno) {
	into := raw.CloneArgs{
		Flags: unix.CLONE_INTO_CGROUP | vforkFlags, ExitSignal: uint64(syscall.SIGCHLD), Cgroup: uint64(a.group),
	}
	plain := uintptr(syscall.SIGCHLD) | vforkFlags
	raw.BeforeFork()
	if a.detach {
		between, errno := vfork(syscall.SYS_CLONE, plain, 0)
		if errno != 0 || between != 0 {
			raw.AfterFork()
			return int(between), syscall.Errno(errno)
		}
		// in the process in between, which exits at once
		raw.AfterForkInChild()
	}
	if a.group >= 0 {
		pid, errno := vfork(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&into)), unsafe.Sizeof(into))
		if errno == 0 && pid == 0 {
			become(a, true)
		}
		if !raw.Refused(errno) {
			return forked(a, pid, errno)
		}
	}
	pid, errno := vfork(syscall.SYS_CLONE, plain, 0)
	if errno == 0 && pid == 0 {
		become(a, a.group < 0)
	}
	return forked(a, pid, errno)
}

// forked goes on in the process that has forked: the caller's or the one in between.
//
//go:nosplit
//go:norace
func forked(a *args, pid, errno uintptr) (int, syscall.Errno) {
	if !a.detach {
		raw.AfterFork()
		return int(pid), syscall.Errno(errno)
	}
	if errno != 0 {
		fail(a, stepFork, syscall.Errno(errno))
	}
	tell(a, stepPid, uint32(pid))
	raw.Exit(0)
	return 0, 0 // not reached
}

// become turns the child into the process that was asked for.
//
//go:nosplit
//go:norace
func become(a *args, joined bool) {
	if !a.detach {
		raw.AfterForkInChild() // the process in between has done it otherwise
	}
	setMask(a)
	if a.procs >= 0 && !joined {
		join(a)
	}
	_, _, e := syscall.RawSyscall(syscall.SYS_SETPGID, 0, 0, 0) // a process group of its own
	if e != 0 {
		fail(a, stepProcessGroup, e)
	}
	setLimit(a)
	for i := 0; i < len(a.keep); i++ {
		_, _, e = syscall.RawSyscall(syscall.SYS_FCNTL, uintptr(a.keep[i]), syscall.F_SETFD, 0)
		if e != 0 {
			fail(a, stepKeep, e)
		}
	}
	e = execute(a.path, a.argv, a.env)
	fail(a, StepExec, e)
}

//go:nosplit
//go:norace
func setMask(a *args) {
	if a.mask == nil {
		return
	}
	_, _, e := syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(a.mask)), 0, unsafe.Sizeof(*a.mask), 0, 0)
	if e != 0 {
		fail(a, stepMask, e)
	}
}

//go:nosplit
//go:norace
func join(a *args) {
	zero := [1]byte{'0'}
	_, _, e := syscall.RawSyscall(syscall.SYS_WRITE, uintptr(a.procs), uintptr(unsafe.Pointer(&zero[0])), 1)
	if e != 0 {
		fail(a, stepJoin, e)
	}
}

//go:nosplit
//go:norace
func setLimit(a *args) {
	if a.nofile == nil {
		return
	}
	_, _, e := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, 0, syscall.RLIMIT_NOFILE, uintptr(unsafe.Pointer(a.nofile)), 0, 0, 0)
	if e != 0 {
		fail(a, stepLimits, e)
	}
}

//go:nosplit
//go:norace
func execute(path *byte, argv, env []*byte) syscall.Errno {
	_, _, e := syscall.RawSyscall(syscall.SYS_EXECVE, uintptr(unsafe.Pointer(path)),
		uintptr(unsafe.Pointer(&argv[0])), uintptr(unsafe.Pointer(&env[0])))
	return e
}

//go:nosplit
//go:norace
func tell(a *args, step Step, value uint32) {
	m := message{step: step, value: value}
	_, _, _ = syscall.RawSyscall(syscall.SYS_WRITE, uintptr(a.pipe), uintptr(unsafe.Pointer(&m)), unsafe.Sizeof(m))
}

//go:nosplit
//go:norace
func fail(a *args, step Step, errno syscall.Errno) {
	tell(a, step, uint32(errno))
	raw.Exit(1)
}

// receive reads one message; ok is false at the end of the pipe. A message of eight
// bytes is written and read whole (PIPE_BUF).
func receive(pipe int) (m message, ok bool, err error) {
	buf := (*[unsafe.Sizeof(m)]byte)(unsafe.Pointer(&m))
	for {
		n, err := unix.Read(pipe, buf[:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		return m, err == nil && n == len(buf), err
	}
}
