// SPDX-License-Identifier: Apache-2.0

// Package early starts a gateway before there is a Go runtime, by system calls alone.
package early

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/gateway/notify"
	"github.com/mcpscope/mcpscope/internal/server/guard"
	"github.com/mcpscope/mcpscope/internal/server/page"
)

// Names for each gateway and its watcher, however the gateway is started.
const (
	Executable   = "/proc/self/exe" // our own, whatever has become of its file
	WatchCommand = "watch"          // the subcommand that is the watcher
	GuardName    = page.GatewayGuard
)

// Gateway is one without flags and settings.
type Gateway struct {
	Args, Env []uintptr // as the kernel has put them, each with a 0 behind the last one
	Path      uintptr   // the file to execute
	Name      uintptr
	End       uintptr // of the texts of Args
}

// Page makes the page of a gateway that is the calling process.
func Page() (*page.Page, unix.Errno) {
	shared, errno := page.New()
	if errno != 0 {
		return nil, errno
	}
	self, _, errno := unix.RawSyscall(unix.SYS_PIDFD_OPEN, uintptr(unix.Getpid()), 0, 0)
	if errno != 0 {
		return nil, errno
	}
	const how = unix.O_PATH | unix.O_CLOEXEC
	here := unix.AT_FDCWD
	exe := address(Executable + "\x00")
	program, _, errno := unix.RawSyscall6(unix.SYS_OPENAT, uintptr(here), exe, how, 0, 0, 0)
	shared.FD.Client = int32(self)
	shared.FD.Program = int32(program)
	return shared, errno
}

// Exec turns the calling process into the gateway. It returns if it can't, for main to try.
func (g *Gateway) Exec() {
	was, _, _ := unix.RawSyscall(unix.SYS_PRCTL, unix.PR_GET_DUMPABLE, 0, 0)
	g.exec()
	_, _, _ = unix.RawSyscall(unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, was, 0) // main reads its environment
}

func (g *Gateway) exec() {
	if !mayContain() || needsNote() {
		return // main writes to stderr, which is the gateway's own afterwards
	}
	for _, limit := range [...]uintptr{unix.RLIMIT_FSIZE, unix.RLIMIT_AS, unix.RLIMIT_DATA} {
		var most unix.Rlimit
		at := uintptr(unsafe.Pointer(&most))
		_, _, errno := unix.RawSyscall6(unix.SYS_PRLIMIT64, 0, limit, 0, at, 0, 0)
		if errno != 0 || most.Cur < 4<<30 { // SIGXFSZ would end us, and a watcher could not start
			return
		}
	}
	scheduler, _, _ := unix.RawSyscall(unix.SYS_SCHED_GETSCHEDULER, 0, 0, 0)
	const resetOnFork = 0x40000000 // for the thread, too
	if scheduler&resetOnFork != 0 || !notify.MayRead() {
		return
	}
	var death int32 // which a new thread does not inherit
	_, _, _ = unix.RawSyscall(unix.SYS_PRCTL, unix.PR_GET_PDEATHSIG, uintptr(unsafe.Pointer(&death)), 0)
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
		errno = watch.Go(listener, -1)
		_, _, _ = unix.RawSyscall(unix.SYS_CLOSE, uintptr(listener), 0, 0)
		if errno == 0 {
			_, _, _ = unix.RawSyscall(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(death), 0)
			_, _, _ = unix.RawSyscall(unix.SYS_EXECVE, g.Path, uintptr(unsafe.Pointer(&g.Args[0])), env)
			watch.SendWord(page.WordDone) // no watcher for it
		}
	})
	_, _, _ = unix.RawSyscall(unix.SYS_CLOSE, uintptr(watch.Sock), 0, 0) // the guard ends with it
}

// mayContain finds out, as cheaply as that can be, whether servers can be contained: main checks more, and
// says on stderr why not. There has to be a hierarchy to write to that shows where we are and, except for
// root, a service manager.
func mayContain() bool {
	if !procIsOurs() || !guard.SeesOwnCgroup() {
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
	uid := unix.Geteuid()
	return reaches(managerOf(uid)) || uid == 0 && exists(writable, unix.W_OK)
}

// procIsOurs is proc.Ours.
func procIsOurs() bool {
	var text [16]byte
	here := unix.AT_FDCWD
	link := address("/proc/self\x00")
	at := uintptr(unsafe.Pointer(&text))
	n, _, errno := unix.RawSyscall6(unix.SYS_READLINKAT, uintptr(here), link, at, unsafe.Sizeof(text), 0, 0)
	own, first := decimal(unix.Getpid())
	return errno == 0 && string(text[:n]) == string(own[first:])
}

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

// managerAddress is written by managerOf.
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
	at := uintptr(unsafe.Pointer(manager))
	_, _, errno = unix.RawSyscall(unix.SYS_CONNECT, fd, at, unsafe.Sizeof(*manager))
	var peer unix.Ucred
	size := uint32(unsafe.Sizeof(peer))
	to := uintptr(unsafe.Pointer(&peer))
	with := uintptr(unsafe.Pointer(&size))
	if errno == 0 {
		const what = unix.SO_PEERCRED
		_, _, errno = unix.RawSyscall6(unix.SYS_GETSOCKOPT, fd, unix.SOL_SOCKET, what, to, with, 0)
	}
	_, _, _ = unix.RawSyscall(unix.SYS_CLOSE, fd, 0, 0)
	return errno == 0 && peer.Pid != 0 && int(peer.Uid) == unix.Geteuid()
}

// needsNote reports whether main has to say on a terminal that setuid programs do not work.
func needsNote() bool {
	var term unix.Termios
	at := uintptr(unsafe.Pointer(&term))
	_, _, errno := unix.RawSyscall(unix.SYS_IOCTL, 2, unix.TCGETS, at)
	return errno == 0 && !notify.Capable(unix.CAP_SYS_ADMIN)
}

func address(text string) uintptr { return uintptr(unsafe.Pointer(unsafe.StringData(text))) }
