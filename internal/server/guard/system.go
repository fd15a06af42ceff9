// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// All code that runs in guard, launcher and the main process before its exec follows these rules. It makes
// system calls and nothing else. It stores no pointers, because a store may call the garbage collector's
// write barrier. In the guard it reads no variable of a package, because the guard has no copy of those.
// Functions need no go:nosplit there: the g of a raw process has a stack guard of 0, see forkOn.

// forkOn makes a system call that starts a process with a stack of its own. The new process calls
// rawMain(c), with g as its goroutine as far as the compiler is concerned. A negative pid is an errno.
//
//go:noescape
func forkOn(trap, a1, a2, a3, a4, a5 uintptr, c *child, gp *goroutine) (pid int)

// vfork makes the system call trap, clone or clone3, with CLONE_VM and CLONE_VFORK in its flags. Parent and
// child return in the same frame of the caller, which the child must not leave. A negative pid is an errno.
//
//go:noescape
func vfork(trap, a1, a2 uintptr) (pid int)

// writable is where the program's variables begin.
func writable() uintptr

// zeroed is where the variables begin and end that are zero when a program starts.
func zeroed() (addr, end uintptr)

// freePages gives back the memory of some of these variables, as far as it is whole pages. They are zero
// afterwards.
func freePages(addr, end uintptr) {
	const size = 4096 // where pages are larger the kernel may refuse
	addr = (addr + size - 1) &^ (size - 1)
	end &^= size - 1
	if addr < end {
		sys(unix.SYS_MADVISE, addr, end-addr, unix.MADV_DONTNEED, 0, 0)
	}
}

// goroutine stands for the runtime's g, of which compiled code reads stackguard0 alone, the third word.
type goroutine [64]uintptr

// cloneArgs is struct clone_args of clone3(2) up to cgroup (Linux 5.7).
type cloneArgs struct {
	flags, pidfd, childTID, parentTID, exitSignal uint64
	stack, stackSize, tls, setTID, setTIDSize     uint64
	cgroup                                        uint64
}

const vforkFlags = unix.CLONE_VM | unix.CLONE_VFORK

// names of files, in read-only memory
const (
	procsFile    = "cgroup.procs\x00"
	freezeFile   = "cgroup.freeze\x00"
	killFile     = "cgroup.kill\x00"
	childrenFile = "/proc/thread-self/children\x00"
	eventsFile   = "cgroup.events\x00"
	scopeFreeze  = "../cgroup.freeze\x00"
	scopeLeaf    = "../" + guardsName
	ownProgram   = "/proc/self/exe\x00"
)

//go:nosplit
func sys(trap, a1, a2, a3, a4, a5 uintptr) (uintptr, syscall.Errno) {
	r, _, errno := syscall.RawSyscall6(trap, a1, a2, a3, a4, a5, 0)
	return r, errno
}

//go:nosplit
func exit(status uintptr) {
	for {
		sys(unix.SYS_EXIT_GROUP, status, 0, 0, 0, 0)
	}
}

//go:nosplit
func setMask(mask, old *uint64) {
	to := uintptr(unsafe.Pointer(mask))
	was := uintptr(unsafe.Pointer(old))
	sys(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, to, was, 8, 0)
}

func ownPID() int32 {
	pid, _ := sys(unix.SYS_GETPID, 0, 0, 0, 0, 0)
	return int32(pid)
}

func closeFD(fd int32) { sys(unix.SYS_CLOSE, uintptr(fd), 0, 0, 0, 0) }

// now is CLOCK_MONOTONIC: a suspended machine gives a helper no time to react.
func now() int64 {
	var ts unix.Timespec
	sys(unix.SYS_CLOCK_GETTIME, unix.CLOCK_MONOTONIC, uintptr(unsafe.Pointer(&ts)), 0, 0, 0)
	return ts.Sec*1e9 + ts.Nsec
}

func sleep(ns int64) {
	ts := unix.Timespec{Nsec: ns}
	sys(unix.SYS_PPOLL, 0, 0, uintptr(unsafe.Pointer(&ts)), 0, 0)
}

// waitFor waits for an event on count struct pollfd, until deadline if that is not 0. It ends a process that
// can't see anything, as RLIMIT_NOFILE is less than count (EINVAL): the launcher or the watcher forks another
// guard, or a sweep stops the server.
func waitFor(polls, count uintptr, deadline int64) (events uintptr, errno syscall.Errno) {
	ts := unix.Timespec{}
	timeout := uintptr(0)
	if deadline != 0 {
		left := max(deadline-now(), 0)
		ts = unix.Timespec{Sec: left / 1e9, Nsec: left % 1e9}
		timeout = uintptr(unsafe.Pointer(&ts))
	}
	events, errno = sys(unix.SYS_PPOLL, polls, count, timeout, 0, 0)
	if errno == syscall.EINVAL {
		exit(1)
	}
	return events, errno
}

// endedWithin waits for the end of a process, and not longer than that: less than 1e9 ns.
func endedWithin(pidfd int32, ns int64) bool {
	end := unix.PollFd{Fd: pidfd, Events: unix.POLLIN}
	limit := unix.Timespec{Nsec: ns}
	addr := uintptr(unsafe.Pointer(&end))
	timeout := uintptr(unsafe.Pointer(&limit))
	n, e := sys(unix.SYS_PPOLL, addr, 1, timeout, 0, 0)
	return e == 0 && n == 1
}

// signalChild signals by pid: only the parent reaps its children.
func signalChild(pid int32, sig unix.Signal) { sys(unix.SYS_KILL, uintptr(pid), uintptr(sig), 0, 0, 0) }

func signalBy(pidfd int, sig unix.Signal) {
	sys(unix.SYS_PIDFD_SEND_SIGNAL, uintptr(pidfd), uintptr(sig), 0, 0, 0)
}

func socketPair(ends *[2]int32) syscall.Errno {
	const way = unix.SOCK_STREAM | unix.SOCK_CLOEXEC
	_, e := sys(unix.SYS_SOCKETPAIR, unix.AF_UNIX, way, 0, uintptr(unsafe.Pointer(ends)), 0)
	return e
}

// writeFile writes one character to a file of a cgroup.
func writeFile(dir int32, name string, char byte) syscall.Errno {
	fd, e := openAt(dir, name, unix.O_WRONLY)
	if e != 0 {
		return e
	}
	e = writeChar(fd, char)
	closeFD(fd)
	return e
}

func writeChar(fd int32, char byte) syscall.Errno {
	text := [1]byte{char}
	_, e := sys(unix.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(&text)), 1, 0, 0)
	return e
}

func openAt(dir int32, name string, how uintptr) (int32, syscall.Errno) {
	fd, e := sys(unix.SYS_OPENAT, uintptr(dir), address(name), how|unix.O_CLOEXEC, 0, 0)
	return int32(fd), e
}

// executeProgram executes mcpscope by a descriptor or, where a sandbox refuses that, by the name of its file.
// It returns if that fails.
func executeProgram(program int32, argv, env uintptr) syscall.Errno {
	_, e := sys(unix.SYS_EXECVEAT, uintptr(program), address("\x00"), argv, env, unix.AT_EMPTY_PATH)
	if e == syscall.EPERM || e == syscall.ENOSYS {
		_, e = sys(unix.SYS_EXECVE, address(ownProgram), argv, env, 0, 0)
	}
	return e
}

func address(text string) uintptr { return uintptr(unsafe.Pointer(unsafe.StringData(text))) }

// readFile reads the beginning of a file into buf, and returns 0 if it can't.
func readFile(fd int32, buf *[512]byte) uintptr {
	n, e := sys(unix.SYS_PREAD64, uintptr(fd), uintptr(unsafe.Pointer(buf)), unsafe.Sizeof(*buf), 0, 0)
	if e != 0 {
		return 0
	}
	return n
}

// populated reports whether cgroup.events of a directory says so. One that cannot be read is: a member that
// does not exist costs time. One that was removed is not.
func populated(dir int32, buf *[512]byte) bool {
	fd, e := openAt(dir, eventsFile, 0)
	if e != 0 {
		return e != syscall.ENOENT
	}
	n := readFile(fd, buf)
	closeFD(fd)
	return isPopulated(buf, n)
}

// isPopulated reads "populated 0\nfrozen 0".
func isPopulated(buf *[512]byte, size uintptr) bool { return size < 20 || buf[10] == '1' }
