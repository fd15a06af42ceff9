// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package guard

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// child is where the memory of a raw process begins: a mapping that it shares with its parent, so that no
// page of it is copied, with a stack of its own behind the struct that child is the first field of.
type child struct {
	role   role
	g      goroutine
	tls    [4]uintptr
	clone  cloneArgs
	size   uintptr     // of the mapping
	locks  unix.Rlimit // RLIMIT_LOCKS without a tag, for forkBetween
	name   uintptr     // that it has from birth (PR_SET_NAME), or 0, for forkBetween
	before [16]byte    // the name of the process between before it forks, for forkBetween
	cgroup int32       // where it is born, or -1
	joins  bool        // clone3 was refused: it enters the cgroup by itself
	pid    int32       // written by the process that forks it, or an errno, negative
	pidfd  int32
	// between is the pid of the process that has forked it, and still is to be reaped; or 0.
	between int32
}

// role is the task of a raw process.
type role uint32

const (
	roleGuard role = iota
	roleGate
	roleSpare
	roleMain
	roleGo
)

// rawMain is where a raw process begins. It does not return.
//
//lint:ignore U1000 forkOn calls it
func rawMain(c *child) {
	switch c.role {
	case roleGuard:
		(*serverGuard)(unsafe.Pointer(c)).guardMain()
	case roleGate:
		(*gateGuard)(unsafe.Pointer(c)).keepGate()
	case roleSpare:
		(*gateGuard)(unsafe.Pointer(c)).spareMain()
	case roleMain:
		(*birth)(unsafe.Pointer(c)).mainProcess()
	case roleGo:
		(*newborn)(unsafe.Pointer(c)).execute()
	}
	exit(125)
}

const stackSize = 2 * 4096

// mapChild maps the memory of a raw process, of that size and a stack, all zero but for the fork's own
// fields.
func mapChild(size uintptr, r role) (uintptr, syscall.Errno) {
	size = (size+4095)&^4095 + stackSize
	const access = unix.PROT_READ | unix.PROT_WRITE
	const how = unix.MAP_SHARED | unix.MAP_ANONYMOUS | unix.MAP_POPULATE
	addr, _, e := syscall.RawSyscall6(unix.SYS_MMAP, 0, size, access, how, ^uintptr(0), 0)
	if e != 0 {
		return 0, e
	}
	c := *(**child)(unsafe.Pointer(&addr))
	c.role = r
	c.size = size
	c.cgroup = -1
	c.pidfd = -1
	c.tls[2] = uintptr(unsafe.Pointer(&c.g))
	c.clone = cloneArgs{
		pidfd: uint64(uintptr(unsafe.Pointer(&c.pidfd))),
		tls:   uint64(uintptr(unsafe.Pointer(&c.tls[3]))),
		stack: uint64(addr + size - stackSize), stackSize: stackSize,
	}
	return addr, 0
}

func (c *child) unmap() { sys(unix.SYS_MUNMAP, uintptr(unsafe.Pointer(c)), c.size, 0, 0, 0) }

const (
	shareNothing = 0 // of memory: in place of vforkFlags
	noExitSignal = 0
)

// fork starts the process, and writes its pid, and its pidfd if clone has a place for that. sharing is
// vforkFlags or shareNothing. The new process sends signal at its end; noExitSignal is for one that wait(2)
// does not return without __WALL.
//
// It is nosplit because a process that borrows the memory of its parent calls it.
//
//go:nosplit
func (c *child) fork(sharing, signal uint64) {
	sharing |= unix.CLONE_SETTLS
	if c.clone.pidfd != 0 {
		sharing |= unix.CLONE_PIDFD
	}
	c.clone.exitSignal = signal
	c.clone.flags = sharing | unix.CLONE_CLEAR_SIGHAND
	if c.cgroup >= 0 {
		c.clone.flags |= unix.CLONE_INTO_CGROUP
		c.clone.cgroup = uint64(c.cgroup)
	}
	addr := uintptr(unsafe.Pointer(&c.clone))
	size := unsafe.Sizeof(c.clone)
	pid := forkOn(unix.SYS_CLONE3, addr, size, 0, 0, 0, c, &c.g)
	// Seccomp may refuse clone3. Then clone(2) starts the process, which joins the cgroup before it does
	// anything else.
	if pid == -int(syscall.ENOSYS) || pid == -int(syscall.EPERM) {
		flags := uintptr(sharing | signal)
		tls := uintptr(c.clone.tls) // the fourth argument on arm64, the fifth on amd64; the other is not used
		c.joins = true
		top := uintptr(c.clone.stack + c.clone.stackSize)
		pid = forkOn(unix.SYS_CLONE, flags, top, uintptr(c.clone.pidfd), tls, tls, c, &c.g)
	}
	c.pid = int32(pid)
}

// forkBetween forks by a process between, which exits at once, so that the new process is in no process tree
// of the client. That process shares the caller's descriptors, so that the pidfd is opened there. It has led
// a process group of its own, and the caller reaps it.
//
// All signals are blocked: a handler of the runtime in a process that borrows its memory would destroy it.
// That the function has no preemption point keeps it on its thread.
//
//go:noinline
//go:nosplit
func (c *child) forkBetween() syscall.Errno {
	c.pid = -int32(syscall.EINTR) // it stays if the process between is killed
	c.pidfd = -1
	all := ^uint64(0)
	before := uint64(0)
	setMask(&all, &before)
	pid := vfork(unix.SYS_CLONE, vforkFlags|unix.CLONE_FILES, 0)
	if pid == 0 {
		sys(unix.SYS_SETPGID, 0, 0, 0, 0, 0) // the client may kill its process group
		locks := uintptr(unsafe.Pointer(&c.locks))
		sys(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_LOCKS, locks, 0, 0) // see clearTag
		own := uintptr(unsafe.Pointer(&c.before))
		sys(unix.SYS_PRCTL, unix.PR_GET_NAME, own, 0, 0, 0)
		sys(unix.SYS_PRCTL, unix.PR_SET_NAME, c.name, 0, 0, 0) // c may run late
		c.fork(shareNothing, uint64(unix.SIGCHLD))
		sys(unix.SYS_PRCTL, unix.PR_SET_NAME, own, 0, 0, 0) // it stays for a while as a zombie
		exit(0)
	}
	if pid > 0 {
		c.between = int32(pid)
		pid = int(c.pid)
	}
	setMask(&before, nil)
	return syscall.Errno(-min(pid, 0))
}

// reapLeader reaps a process that has only led a group. No signal interrupts that: it has ended.
func reapLeader(pid int32) {
	if pid > 0 {
		sys(unix.SYS_WAIT4, uintptr(pid), 0, unix.WALL, 0, 0)
	}
}

// forkLeader forks a process that leads a group of its own, and has ended. The caller reaps it.
//
//go:noinline
//go:nosplit
func forkLeader() (pid int32) {
	n := vfork(unix.SYS_CLONE, vforkFlags, 0)
	if n == 0 {
		sys(unix.SYS_SETPGID, 0, 0, 0, 0, 0)
		exit(0)
	}
	return int32(n)
}

// forkHere forks a child of the calling process, which has signals as before afterwards.
//
//go:noinline
//go:nosplit
func (c *child) forkHere(sharing, signal uint64) syscall.Errno {
	all := ^uint64(0)
	before := uint64(0)
	setMask(&all, &before)
	c.fork(sharing, signal)
	setMask(&before, nil)
	return syscall.Errno(-min(c.pid, 0))
}
