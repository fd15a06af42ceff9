// SPDX-License-Identifier: Apache-2.0

//go:build linux && !cgo

package main

import (
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/name"
	"github.com/mcpscope/mcpscope/internal/server/guard"
	"github.com/mcpscope/mcpscope/internal/server/page"
	"github.com/mcpscope/mcpscope/internal/settings"
	"github.com/mcpscope/mcpscope/internal/settings/raw"
)

// tls is the thread-local storage of the first thread.
//
//lint:ignore U1000 hook uses it
var tls [2]uintptr

// begin runs before the Go runtime, and returns the argv that this uses. argv is where the kernel has put it;
// the environment follows. No function below it uses heap, locks, goroutines, or a variable that an init
// sets.
//
//lint:ignore U1000 hook calls it
func begin(argv, stack uintptr) uintptr {
	if argv < stack || argv > stack+4096 {
		return argv // rt0_go of another Go has another frame
	}
	args := vector(argv)
	argc := argv - 8
	if **(**int)(unsafe.Pointer(&argc)) != len(args) {
		return argv
	}
	env := vector(argv + 8*uintptr(len(args)+1))
	if len(args) > 1 && text(args[1]) == "run" {
		refuseWithFewFiles()
		refuseWithSmallFiles()
		if performPlan(args, env) || beginRun(args, env) {
			own.ExitWithoutMain()
			return argv
		}
		refuseWithoutRoom()
		openNothing()
	}
	if len(args) > 1 && text(args[1]) == guard.ScopeCommand { // which executes nothing
		leaveWithoutRoom()
		openNothing()
	}
	if isLauncher(args) {
		own.Signals.Hold()
	}
	return withOwnVariables(argv, args, env)
}

// isLauncher reports whether another program gets the signals of this process.
func isLauncher(args []uintptr) bool {
	return len(args) > 1 && (text(args[1]) == "run" || text(args[1]) == "gateway")
}

// vectors are argv, environment and auxiliary vector (getauxval(3)).
var vectors [8192]uintptr

// forRuntime are variables of our Go runtime, which uses the first one of a name. It has memory and threads
// for each processor of the machine, of which a process that waits makes no use. The others are for a server
// that is written in Go: our runtime would print lines of its own (GODEBUG), or end at a value that it can't
// read (GOMEMLIMIT).
const (
	forRuntime      = "GOMAXPROCS=1\x00GODEBUG=\x00GOMEMLIMIT=\x00"
	forRuntimeCount = 3
)

// withOwnVariables returns argv, environment and auxiliary vector with the variables of forRuntime first. It
// returns them as they are if they are too long for vectors.
func withOwnVariables(argv uintptr, args, env []uintptr) uintptr {
	all := unsafe.Slice(unsafe.SliceData(env), 1<<27)
	rest := len(env) + 1
	for all[rest] != 0 { // AT_NULL
		rest += 2
	}
	rest += 2
	if len(args)+1+forRuntimeCount+rest > len(vectors) {
		return argv
	}
	n := copy(vectors[:], args) + 1
	variable := uintptr(unsafe.Pointer(unsafe.StringData(forRuntime)))
	for range forRuntimeCount {
		vectors[n] = variable
		variable += uintptr(len(text(variable)) + len("\x00"))
		n++
	}
	copy(vectors[n:], all[:rest])
	return uintptr(unsafe.Pointer(&vectors))
}

// refuseWithFewFiles ends a run that could not be stopped: a helper inherits the limit, and needs some
// descriptors to find the members. A launcher has more than that, but it may die.
func refuseWithFewFiles() {
	const why = "mcpscope: cannot contain a server: the limit of open files is too low\n" +
		"mcpscope: hint: raise it to 32 at least (ulimit -n)\n"
	limit := unix.Rlimit{}
	to := uintptr(unsafe.Pointer(&limit))
	unix.RawSyscall6(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_NOFILE, 0, to, 0, 0)
	if limit.Cur < page.FilesLeast {
		refuse(why)
	}
}

// refuseWithSmallFiles ends a run that would get SIGXFSZ: launcher, guard and helpers share a file in memory.
func refuseWithSmallFiles() {
	const why = "mcpscope: cannot contain a server: the limit of file size is too low\n" +
		"mcpscope: hint: raise it to 64 kB at least (ulimit -f, LimitFSIZE=)\n"
	limit := unix.Rlimit{}
	to := uintptr(unsafe.Pointer(&limit))
	unix.RawSyscall6(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_FSIZE, 0, to, 0, 0)
	if limit.Cur < page.Size {
		refuse(why)
	}
}

// refuseWithoutRoom ends a run whose runtime would print a stack trace.
func refuseWithoutRoom() {
	const processes = "mcpscope: cannot run a server: the user's limit of processes has been reached\n" +
		"mcpscope: hint: ulimit -u\n"
	const memory = "mcpscope: cannot run a server: the limit of address space is too low\n" +
		"mcpscope: hint: raise it to 1 GB at least (ulimit -v, LimitAS=)\n"
	const data = "mcpscope: cannot run a server: the limit of data memory is too low\n" +
		"mcpscope: hint: raise it to 64 MB at least (ulimit -d, LimitDATA=)\n"
	if !guard.HasProcesses() {
		refuse(processes)
	}
	if !guard.HasAddressSpace() {
		refuse(memory)
	}
	if !guard.HasData() {
		refuse(data)
	}
}

// leaveWithoutRoom ends the process that asks for a scope: its launcher finds out the same, and says it.
func leaveWithoutRoom() {
	if !guard.HasProcesses() || !guard.HasAddressSpace() || !guard.HasData() {
		unix.RawSyscall(unix.SYS_EXIT_GROUP, uintptr(cli.ExitOwnFailure), 0, 0)
	}
}

func refuse(why string) {
	ignore := [4]uint64{1} // SIG_IGN: stderr may be a file that must not grow
	action := uintptr(unsafe.Pointer(&ignore))
	unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(unix.SIGXFSZ), action, 0, 8, 0, 0)
	addr := uintptr(unsafe.Pointer(unsafe.StringData(why)))
	unix.RawSyscall(unix.SYS_WRITE, 2, addr, uintptr(len(why)))
	unix.RawSyscall(unix.SYS_EXIT_GROUP, uintptr(cli.ExitOwnFailure), 0, 0)
}

// openNothing keeps the runtime from looking for a CPU limit in all mounts: that takes 0.2 ms, and has no
// effect on one processor. Package syscall raises the limit of open files before other packages open one.
func openNothing() {
	few := unix.Rlimit{Cur: 3}
	was := &filesBefore
	addr := uintptr(unsafe.Pointer(&few))
	to := uintptr(unsafe.Pointer(was))
	unix.RawSyscall6(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_NOFILE, 0, to, 0, 0)
	few.Max = was.Max
	unix.RawSyscall6(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_NOFILE, addr, 0, 0, 0)
}

// standardAreOpen reports whether stdin, stdout and stderr are: one that is closed would become a descriptor
// of ours.
func standardAreOpen() bool {
	for fd := range uintptr(3) {
		if _, _, errno := unix.RawSyscall(unix.SYS_FCNTL, fd, unix.F_GETFD, 0); errno != 0 {
			return false
		}
	}
	return true
}

// readSettings reads the files of settings. It returns false where main has to.
func readSettings(home, config string) bool {
	below := ""
	if home == "" && unix.Getuid() == 0 {
		home = homeOfRoot()
	}
	if !strings.HasPrefix(config, "/") {
		config = home
		below = "/.config"
	}
	// Without a home main asks the user database, as in a unit; and it cleans a path.
	absolute := strings.HasPrefix(config, "/")
	if !absolute || strings.Contains(config, "/.") || strings.Contains(config, "//") {
		return false
	}
	var f file
	return f.named(settings.System()).read() && f.named(config, below, settings.UserFile).read()
}

// passwd has the beginning of passwd(5).
var passwd [256]byte

// homeOfRoot is the home in the first line of passwd(5), if that is root's: services of the system have no
// HOME. It is "" otherwise, and main reads on.
func homeOfRoot() (home string) {
	here := unix.AT_FDCWD
	name := uintptr(unsafe.Pointer(unsafe.StringData("/etc/passwd\x00")))
	fd, _, errno := unix.RawSyscall6(unix.SYS_OPENAT, uintptr(here), name, unix.O_CLOEXEC, 0, 0, 0)
	if errno != 0 {
		return ""
	}
	to := uintptr(unsafe.Pointer(&passwd))
	size, _, errno := unix.RawSyscall(unix.SYS_READ, fd, to, unsafe.Sizeof(passwd))
	_, _, _ = unix.RawSyscall(unix.SYS_CLOSE, fd, 0, 0)
	if errno != 0 || size > unsafe.Sizeof(passwd) {
		return ""
	}
	line, _, whole := strings.Cut(unsafe.String(&passwd[0], size), "\n")
	if !whole {
		return ""
	}
	const uid, homeField = 2, 5
	for field := 0; field <= homeField; field++ {
		home, line, _ = strings.Cut(line, ":")
		if field == uid && home != "0" {
			return ""
		}
	}
	return home
}

// isName reports whether a gateway of that file is called like it, whatever its arguments are.
func isName(file string) bool {
	for rest := name.Prefixes; rest != ""; {
		var word string
		word, rest, _ = strings.Cut(rest, " ")
		if word == file {
			return false
		}
	}
	return name.KindOf(file) == name.Other && raw.IsPlainName(file)
}

func value(of *string, variable, name string) {
	if strings.HasPrefix(variable, name) {
		*of = variable[len(name):]
	}
}

// vector is an array of pointers that ends with 0.
func vector(addr uintptr) []uintptr {
	all := unsafe.Slice(*(**uintptr)(unsafe.Pointer(&addr)), 1<<27)
	n := 0
	for all[n] != 0 {
		n++
	}
	return all[:n]
}

func text(addr uintptr) string { return raw.Text(addr) }

// file is a path that ends with 0. There is no file of one that is too long.
type file [4096]byte

func (f *file) named(parts ...string) *file {
	n := 0
	for _, part := range parts {
		n += copy(f[n:], part)
	}
	f[n%len(f)] = 0
	return f
}

// read reads a file of settings. It returns false where main has to.
func (f *file) read() bool { return launch.Flags.ReadFile(uintptr(unsafe.Pointer(f))) }

func (f *file) exists() bool {
	errno := f.access(unix.F_OK)
	return errno != unix.ENOENT && errno != unix.ENOTDIR
}

func (f *file) access(mode uintptr) unix.Errno {
	addr := uintptr(unsafe.Pointer(f))
	here := unix.AT_FDCWD
	_, _, errno := unix.RawSyscall6(unix.SYS_FACCESSAT2, uintptr(here), addr, mode, unix.AT_EACCESS, 0, 0)
	return errno
}

// find is the raw form of programs.Lookup. If it fails, main searches again,
// and reports the reason.
func (f *file) find(command, search string) bool {
	if strings.Contains(command, "/") {
		return f.named(command).isProgram()
	}
	for search != "" {
		var dir string
		dir, search, _ = strings.Cut(search, ":")
		if dir == "" {
			dir = "."
		}
		if f.named(dir, "/", command).isProgram() {
			return true
		}
	}
	return false
}

func (f *file) isProgram() bool {
	var st unix.Statx_t
	addr := uintptr(unsafe.Pointer(f))
	here := unix.AT_FDCWD
	to := uintptr(unsafe.Pointer(&st))
	_, _, errno := unix.RawSyscall6(unix.SYS_STATX, uintptr(here), addr, 0, unix.STATX_TYPE, to, 0)
	return errno == 0 && st.Mode&unix.S_IFMT == unix.S_IFREG && f.access(unix.X_OK) == 0
}
