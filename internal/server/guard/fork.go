// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package guard

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// leaveOut keeps all writable memory out of the guard's copy (MADV_DONTFORK) but the command line and shared
// mappings. Neither its page tables are copied nor, as the launcher goes on, its pages. Without /proc the
// copy is whole. Processes that execute something borrow the memory and copy nothing.
func leaveOut() {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return
	}
	for line := range bytes.Lines(maps) { // "7f00-7f80 rw-p …"
		addresses, rest, _ := bytes.Cut(line, []byte(" "))
		if !bytes.HasPrefix(rest, []byte("rw-p")) || bytes.HasSuffix(rest, []byte("[stack]\n")) {
			continue
		}
		first, last, _ := bytes.Cut(addresses, []byte("-"))
		from, err := strconv.ParseUint(string(first), 16, 64)
		to, err2 := strconv.ParseUint(string(last), 16, 64)
		if err == nil && err2 == nil {
			sys(unix.SYS_MADVISE, uintptr(from), uintptr(to-from), unix.MADV_DONTFORK, 0, 0)
		}
	}
}

// forkBetween makes the guard by a process between, which exits at once, so that the guard is in no process
// tree of the client. That process shares the caller's descriptors, so that the guard's pidfd is opened
// there.
//
// All signals are blocked: a handler of the runtime in a process that borrows its memory would destroy it.
// That the function has no preemption point keeps it on its thread.
//
//go:noinline
//go:nosplit
func forkBetween(p *process) syscall.Errno {
	all, before := ^uint64(0), uint64(0)
	_, e := sys(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&all)),
		uintptr(unsafe.Pointer(&before)), unsafe.Sizeof(all), 0)
	if e != 0 {
		return e
	}
	pid, failed := vfork(unix.SYS_CLONE, vforkFlags|unix.CLONE_FILES|uintptr(unix.SIGCHLD), 0)
	if failed == 0 && pid == 0 {
		forkGuard(p)
	}
	setMask(&before)
	if failed != 0 {
		return syscall.Errno(failed)
	}
	for e = syscall.EINTR; e == syscall.EINTR; {
		_, e = sys(unix.SYS_WAIT4, pid, 0, unix.WALL, 0, 0)
	}
	return syscall.Errno(p.errno)
}

// forkGuard is all that the process between does.
//
//go:nosplit
func forkGuard(p *process) {
	sys(unix.SYS_SETPGID, 0, 0, 0, 0, 0) // the client may kill its process group
	into := &p.clone
	if p.page.Leaf < 0 {
		into.flags &^= unix.CLONE_INTO_CGROUP
	}
	into.cgroup = uint64(p.page.Leaf)
	at, size := uintptr(unsafe.Pointer(into)), unsafe.Sizeof(*into)
	pid, errno := forkOn(unix.SYS_CLONE3, at, size, 0, 0, 0, p, &p.g)
	if refused(errno) {
		const flags = unix.CLONE_SETTLS | unix.CLONE_PIDFD | uintptr(unix.SIGCHLD)
		tls := uintptr(into.tls) // the fourth argument on arm64, the fifth on amd64; the other is not used
		p.joins = true
		pid, errno = forkOn(unix.SYS_CLONE, flags, uintptr(into.stack+into.stackSize), uintptr(into.pidfd),
			tls, tls, p, &p.g)
	}
	p.pid, p.errno = int32(pid), uint32(errno)
	exit(0)
}
