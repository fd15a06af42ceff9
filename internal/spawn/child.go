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
	path      *byte
	other     *byte // executed where path can't be, or is another file by now; nil: none
	found     [2]unix.Statx_t
	argv      []*byte
	env       []*byte
	shell     *byte // nil: no fallback for ENOEXEC
	shellArgv []*byte
	keep      []int
	pipe      int
	group     int // directory to be born in, or -1
	procs     int // its cgroup.procs, or -1
	pgid      int
	nofile    *unix.Rlimit
	locks     *unix.Rlimit
	mask      *uint64
	detach    bool
	of        Step // added to what it says
	failed    bool // it has said so: for who lends it its memory
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
	_, _, e := syscall.RawSyscall(syscall.SYS_SETPGID, 0, uintptr(a.pgid), 0)
	if e != 0 {
		fail(a, stepProcessGroup, e)
	}
	setLimit(a, syscall.RLIMIT_NOFILE, a.nofile)
	setLimit(a, unix.RLIMIT_LOCKS, a.locks)
	for i := 0; i < len(a.keep); i++ {
		_, _, e = syscall.RawSyscall(syscall.SYS_FCNTL, uintptr(a.keep[i]), syscall.F_SETFD, 0)
		if e != 0 {
			fail(a, stepKeep, e)
		}
	}
	if a.other == nil || same(a) {
		e = execute(a.path, a.argv, a.env)
	}
	if a.other != nil {
		e = execute(a.other, a.argv, a.env)
	}
	if e == syscall.ENOEXEC && a.shell != nil {
		e = execute(a.shell, a.shellArgv, a.env)
	}
	fail(a, StepExec, e)
}

// same tells whether path is the file that other is: statx(2), Linux 4.11.
//
//go:nosplit
//go:norace
func same(a *args) bool {
	at := unix.AT_FDCWD
	_, _, e := syscall.RawSyscall6(unix.SYS_STATX, uintptr(at), uintptr(unsafe.Pointer(a.path)), 0, unix.STATX_INO, uintptr(unsafe.Pointer(&a.found[0])), 0)
	if e == 0 {
		_, _, e = syscall.RawSyscall6(unix.SYS_STATX, uintptr(at), uintptr(unsafe.Pointer(a.other)), 0, unix.STATX_INO, uintptr(unsafe.Pointer(&a.found[1])), 0)
	}
	by, ours := &a.found[0], &a.found[1]
	return e == 0 && by.Ino == ours.Ino && by.Dev_major == ours.Dev_major && by.Dev_minor == ours.Dev_minor
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
	if e := raw.Enter(a.procs); e != 0 {
		fail(a, stepJoin, e)
	}
}

//go:nosplit
//go:norace
func setLimit(a *args, which uintptr, limit *unix.Rlimit) {
	if limit == nil {
		return
	}
	_, _, e := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, 0, which, uintptr(unsafe.Pointer(limit)), 0, 0, 0)
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
	m := message{step: step | a.of, value: value}
	_, _, _ = syscall.RawSyscall(syscall.SYS_WRITE, uintptr(a.pipe), uintptr(unsafe.Pointer(&m)), unsafe.Sizeof(m))
}

//go:nosplit
//go:norace
func fail(a *args, step Step, errno syscall.Errno) {
	tell(a, step, uint32(errno))
	a.failed = true
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
