// SPDX-License-Identifier: Apache-2.0

// Package early starts a gateway before there is a Go runtime, by system calls alone.
package early

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/gateway/notify"
	"github.com/mcpscope/mcpscope/internal/server/guard"
	"github.com/mcpscope/mcpscope/internal/server/page"
	"github.com/mcpscope/mcpscope/internal/server/roof"
)

// Names for each gateway and its watcher, however the gateway is started.
const (
	Executable   = "/proc/self/exe"  // our own, whatever has become of its file
	WatchCommand = "watch"           // the subcommand that is the watcher
	GuardName    = page.GatewayGuard // the comm of the guard
)

// Gateway is one without flags and settings.
type Gateway struct {
	Args, Env []uintptr // as the kernel has put them, each with a 0 behind the last one
	Path      uintptr   // the file to execute
	Name      uintptr   // of the gateway
	End       uintptr   // of the texts of Args
}

// Page makes the page of a gateway that is the calling process.
func Page() (*page.Page, unix.Errno) {
	shared, errno := page.New()
	if errno != 0 {
		return nil, errno
	}
	pidfd, _, errno := unix.RawSyscall(unix.SYS_PIDFD_OPEN, uintptr(unix.Getpid()), 0, 0)
	if errno != 0 {
		return nil, errno
	}
	const how = unix.O_PATH | unix.O_CLOEXEC
	here := unix.AT_FDCWD
	executable := address(Executable + "\x00")
	program, _, errno := unix.RawSyscall6(unix.SYS_OPENAT, uintptr(here), executable, how, 0, 0, 0)
	shared.FD.Client = int32(pidfd)
	shared.FD.Program = int32(program)
	return shared, errno
}

// Exec turns the calling process into the gateway. It returns if it can't, for main to try.
func (g *Gateway) Exec() {
	dumpable, _, _ := unix.RawSyscall(unix.SYS_PRCTL, unix.PR_GET_DUMPABLE, 0, 0) // it can't fail
	g.exec()
	// A process that is not dumpable can't read its environment from /proc, which main does.
	_, _, _ = unix.RawSyscall(unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, dumpable, 0)
}

func (g *Gateway) exec() {
	if !mayContain() || needsNote() {
		return // main writes to stderr, which is the gateway's own afterwards
	}
	if !limitsSuffice() || resetsOnFork() || !notify.MayReadMemory() {
		return
	}
	var deathSignal int32 // a new thread does not inherit it; 0 after an error
	deathAddress := uintptr(unsafe.Pointer(&deathSignal))
	_, _, _ = unix.RawSyscall(unix.SYS_PRCTL, unix.PR_GET_PDEATHSIG, deathAddress, 0)
	shared, errno := Page()
	if errno != 0 {
		return
	}
	env := uintptr(unsafe.Pointer(unsafe.SliceData(g.Env)))
	watcher := [4]uintptr{address("mcpscope\x00"), address(WatchCommand + "\x00"), 0, g.Name}
	watch, errno := guard.Early(shared, GuardName, &watcher, env, [2]uintptr{g.Args[0], g.End})
	if errno != 0 {
		return
	}
	guard.InThread(func() { // so that main has neither the filter nor no_new_privs
		listener, errno := notify.Install(!notify.Capable(unix.CAP_SYS_ADMIN), false)
		if errno != 0 {
			return
		}
		errno = watch.Go(listener)
		_, _, _ = unix.RawSyscall(unix.SYS_CLOSE, uintptr(listener), 0, 0) // the guard has it
		if errno != 0 {
			return
		}
		// The kernel accepts its own value.
		_, _, _ = unix.RawSyscall(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(deathSignal), 0)
		args := uintptr(unsafe.Pointer(&g.Args[0]))
		_, _, _ = unix.RawSyscall(unix.SYS_EXECVE, g.Path, args, env) // it returns only after an error
		watch.SendWord(page.WordDone)                                 // no watcher is needed then
	})
	_, _, _ = unix.RawSyscall(unix.SYS_CLOSE, uintptr(watch.Sock), 0, 0) // the guard ends with it
}

// limitsSuffice reports whether a watcher could start. Its runtime reserves much address space. A low limit
// of a file's size would end this process by SIGXFSZ when it writes the page.
func limitsSuffice() bool {
	for _, limit := range [...]uintptr{unix.RLIMIT_FSIZE, unix.RLIMIT_AS, unix.RLIMIT_DATA} {
		var most unix.Rlimit
		result := uintptr(unsafe.Pointer(&most))
		_, _, errno := unix.RawSyscall6(unix.SYS_PRLIMIT64, 0, limit, 0, result, 0, 0)
		if errno != 0 || most.Cur < 4<<30 {
			return false
		}
	}
	return true
}

// resetsOnFork reports whether a new thread, which executes the gateway, would lose the scheduling policy.
func resetsOnFork() bool {
	const resetOnFork = 0x40000000 // SCHED_RESET_ON_FORK
	policy, _, _ := unix.RawSyscall(unix.SYS_SCHED_GETSCHEDULER, 0, 0, 0)
	return policy&resetOnFork != 0 // also after an error, which is negative
}

// mayContain finds out, as cheaply as that can be, whether servers can be contained: main checks more, and
// says on stderr why not. There has to be a hierarchy to write to that shows where we are and, except for
// root, a service manager that keeps what we keep.
func mayContain() bool {
	uid := unix.Geteuid()
	where, isSeen := guard.OwnRoof(uid)
	if !isSeen {
		return false
	}
	hierarchy := address("/sys/fs/cgroup/unified\x00")
	writable := address("/sys/fs/cgroup/unified/cgroup.procs\x00")
	if !exists(hierarchy, unix.F_OK) {
		hierarchy = address("/sys/fs/cgroup\x00")
		writable = address("/sys/fs/cgroup/cgroup.procs\x00")
	}
	var mount unix.Statfs_t
	_, _, errno := unix.RawSyscall(unix.SYS_STATFS, hierarchy, uintptr(unsafe.Pointer(&mount)), 0)
	if errno != 0 || mount.Type != unix.CGROUP2_SUPER_MAGIC || mount.Flags&unix.ST_RDONLY != 0 {
		return false
	}
	if uid != 0 && where == roof.Elsewhere {
		return false
	}
	return reaches(managerOf(uid)) || uid == 0 && exists(writable, unix.W_OK)
}

// exists reports whether there is a file that this process may access in that mode.
func exists(path uintptr, mode uintptr) bool {
	here := unix.AT_FDCWD
	_, _, errno := unix.RawSyscall(unix.SYS_FACCESSAT, uintptr(here), path, mode)
	return errno == 0
}

// A socketAddress is a struct sockaddr_un.
type socketAddress struct {
	family uint16
	path   [108]byte
}

// managerAddress is written by managerOf: there is no heap yet.
var managerAddress socketAddress

// managerOf is the address of the manager of a user.
func managerOf(uid int) *socketAddress {
	a := &managerAddress
	a.family = unix.AF_UNIX
	n := copy(a.path[:], "/run/")
	if uid != 0 {
		digits, first := decimal(uid)
		n += copy(a.path[n:], "user/")
		n += copy(a.path[n:], digits[first:])
		n += copy(a.path[n:], "/")
	}
	copy(a.path[n:], "systemd/private\x00")
	return a
}

// decimal writes a number to the end of the text.
func decimal(number int) (text [10]byte, first int) {
	first = len(text)
	for first > 0 && (number > 0 || first == len(text)) {
		first--
		text[first] = byte('0' + number%10)
		number /= 10
	}
	return text, first
}

// reaches reports whether this process can connect to a manager of its user in its own pid namespace.
func reaches(manager *socketAddress) bool {
	const kind = unix.SOCK_STREAM | unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK
	fd, _, errno := unix.RawSyscall(unix.SYS_SOCKET, unix.AF_UNIX, kind, 0)
	if errno != 0 {
		return false
	}
	socketName := uintptr(unsafe.Pointer(manager))
	_, _, errno = unix.RawSyscall(unix.SYS_CONNECT, fd, socketName, unsafe.Sizeof(*manager))
	var peer unix.Ucred
	size := uint32(unsafe.Sizeof(peer))
	peerAddress := uintptr(unsafe.Pointer(&peer))
	sizeAddress := uintptr(unsafe.Pointer(&size))
	if errno == 0 {
		const option = unix.SO_PEERCRED
		_, _, errno = unix.RawSyscall6(
			unix.SYS_GETSOCKOPT, fd, unix.SOL_SOCKET, option, peerAddress, sizeAddress, 0)
	}
	_, _, _ = unix.RawSyscall(unix.SYS_CLOSE, fd, 0, 0) // nothing was written
	return errno == 0 && peer.Pid != 0 && int(peer.Uid) == unix.Geteuid()
}

// needsNote reports whether main has to say on a terminal that setuid programs do not work.
func needsNote() bool {
	var term unix.Termios
	result := uintptr(unsafe.Pointer(&term))
	_, _, errno := unix.RawSyscall(unix.SYS_IOCTL, 2, unix.TCGETS, result)
	return errno == 0 && !notify.Capable(unix.CAP_SYS_ADMIN)
}

// address returns the address of a text that ends with a 0.
func address(text string) uintptr { return uintptr(unsafe.Pointer(unsafe.StringData(text))) }
