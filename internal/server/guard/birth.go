// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package guard

import (
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/page"
)

// birth is the memory of the main process until its exec.
type birth struct {
	child    child
	page     *page.Page
	launcher int32 // pid
	program  program
	state    state
	own      ownPIDs
	payload  int32 // where it has to be, or -1
	sock     int32 // of a process that waits for its start, or -1
	sends    int32 // the launcher's end
	rights   page.Rights
}

// program has the arguments of execve(2), and the shell for a file without "#!", as execvp(3).
type program struct{ path, argv, env, shell uintptr }

// state is what else the client's process would have.
type state struct {
	pgid, stderr  uintptr // a process group to join; the descriptor that becomes 2, or 0
	mask          uint64  // signal n is bit n-1
	ignores       uint64  // signals to be ignored, the same
	nofile, locks unix.Rlimit
}

// prefork forks the main process before it has a group, for a manager that moves it. It waits for a word on
// the socket. It may run late, and shares this memory until its exec: nothing here changes until then.
func (b *birth) prefork() (waiting int32, e syscall.Errno) {
	var ends [2]int32
	e = socketPair(&ends)
	if e != 0 {
		return -1, e
	}
	b.sends = ends[0]
	b.sock = ends[1]
	e = b.child.forkHere(shareNothing, uint64(unix.SIGCHLD))
	closeFD(b.sock)
	if e == 0 {
		closeFD(b.child.pidfd)
		_, e = sys(unix.SYS_SETPGID, uintptr(b.child.pid), b.state.pgid, 0, 0, 0)
	}
	return b.sends, e
}

// start starts the main process in the payload, and returns when it executes the server, or can't.
func (b *birth) start(payload int32) syscall.Errno {
	b.payload = payload
	b.child.cgroup = payload
	return b.child.forkHere(vforkFlags, uint64(unix.SIGCHLD))
}

// mainProcess is the main process until its exec. It must not outlive the launcher before it is in the group:
// the guard looks for it there. Nor must it later: the client of a killed launcher may start the server again
// before the guard has killed this one.
func (b *birth) mainProcess() {
	sys(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0)
	parent, _ := sys(unix.SYS_GETPPID, 0, 0, 0, 0, 0)
	if int32(parent) != b.launcher {
		exit(125)
	}
	if b.sock >= 0 {
		closeFD(b.sends) // a copy, which would hide that the launcher has closed it
		if word, _ := receive(b.sock, &b.rights, 0); word != page.WordGo {
			exit(125)
		}
	}
	if b.payload >= 0 && (b.child.joins || b.child.cgroup < 0) {
		b.check(page.StepJoin, writeFile(b.payload, procsFile, '0'))
	}
	pid, _ := sys(unix.SYS_GETPID, 0, 0, 0, 0, 0)
	b.page.ByLauncher.MainPID = int32(pid) // the launcher may be killed before it can write that
	if b.sock < 0 {                        // otherwise the launcher has done that
		_, e := sys(unix.SYS_SETPGID, 0, b.state.pgid, 0, 0, 0)
		b.check(page.StepProcessGroup, e)
	}
	if b.state.stderr != 0 {
		sys(unix.SYS_DUP3, b.state.stderr, 2, 0, 0, 0) // both are open, so it can't fail
	}
	_, e := sys(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_NOFILE, uintptr(unsafe.Pointer(&b.state.nofile)), 0, 0)
	b.check(page.StepLimits, e)
	_, e = sys(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_LOCKS, uintptr(unsafe.Pointer(&b.state.locks)), 0, 0)
	b.check(page.StepLimits, e)
	if b.child.joins {
		resetHandlers()
	}
	for sig := uintptr(1); sig <= 64; sig++ {
		bit := uint64(1) << (sig - 1)
		action := [4]uint64{} // SIG_DFL
		if b.state.ignores&bit != 0 {
			action[0] = ignored
		}
		if (b.state.ignores|unblockedByRuntime)&bit != 0 { // the launcher ignores some that the client blocks
			sys(unix.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&action)), 0, 8, 0)
		}
	}
	setMask(&b.state.mask, nil)
	b.own.write(int(pid))
	_, e = sys(unix.SYS_EXECVE, b.program.path, b.program.argv, b.program.env, 0, 0)
	if e == syscall.ENOEXEC {
		e = b.executeByShell()
	}
	b.check(page.StepExec, e)
}

// executeByShell puts the shell and the file into the words in front of the arguments, which this process
// shares with the launcher, and puts back what was there if that fails.
func (b *birth) executeByShell() syscall.Errno {
	first := b.program.argv - unsafe.Sizeof(b.program.argv)
	words := *(**[2]uintptr)(unsafe.Pointer(&first))
	before := *words
	words[0] = b.program.shell
	words[1] = b.program.path
	_, e := sys(unix.SYS_EXECVE, b.program.shell, first, b.program.env, 0, 0)
	*words = before
	return e
}

// ownPIDs are variables by which systemd tells a service its pid, where that is the launcher's: the main
// process finds its own there (sd_listen_fds(3), sd_watchdog_enabled(3)).
type ownPIDs struct {
	slots [2]uintptr // where the environment has them, or 0
	texts [2][32]byte
}

// find looks for them in an environment.
func (o *ownPIDs) find(env uintptr, launcher int) {
	var digits [11]byte
	number := decimal(&digits, launcher)
	for slot := env; **(**uintptr)(unsafe.Pointer(&slot)) != 0; slot += unsafe.Sizeof(slot) {
		entry := **(**uintptr)(unsafe.Pointer(&slot))
		for i := range o.slots {
			name := ownPIDName(i)
			if hasPrefix(entry, name) && isSame(entry+uintptr(len(name)), number) {
				o.slots[i] = slot
				copy(o.texts[i][:], name)
			}
		}
	}
}

func ownPIDName(i int) string {
	if i == 0 {
		return "LISTEN_PID="
	}
	return "WATCHDOG_PID="
}

// write puts a pid into those that were found.
func (o *ownPIDs) write(pid int) {
	for i := range o.slots {
		if o.slots[i] == 0 {
			continue
		}
		text := &o.texts[i&1]
		n := len(ownPIDName(i))
		var digits [11]byte
		for from := decimal(&digits, pid); **(**byte)(unsafe.Pointer(&from)) != 0; from++ {
			text[n&31] = **(**byte)(unsafe.Pointer(&from))
			n++
		}
		slot := o.slots[i]
		**(**uintptr)(unsafe.Pointer(&slot)) = uintptr(unsafe.Pointer(text))
	}
}

// hasPrefix reports whether a string of C begins so.
func hasPrefix(addr uintptr, prefix string) bool {
	for i := 0; i < len(prefix); i++ {
		if **(**byte)(unsafe.Pointer(&addr)) != prefix[i] {
			return false
		}
		addr++
	}
	return true
}

// isSame compares two strings of C.
func isSame(a, b uintptr) bool {
	for {
		x := **(**byte)(unsafe.Pointer(&a))
		if x != **(**byte)(unsafe.Pointer(&b)) {
			return false
		}
		if x == 0 {
			return true
		}
		a++
		b++
	}
}

// resetHandlers is CLONE_CLEAR_SIGHAND where clone3 is refused: a handler of the launcher's runtime must not
// run here.
func resetHandlers() {
	for sig := uintptr(1); sig <= 64; sig++ {
		action := [4]uint64{}
		normal := [4]uint64{}
		addr := uintptr(unsafe.Pointer(&action))
		to := uintptr(unsafe.Pointer(&normal))
		sys(unix.SYS_RT_SIGACTION, sig, 0, addr, 8, 0)
		if action[0] > ignored {
			sys(unix.SYS_RT_SIGACTION, sig, to, 0, 8, 0)
		}
	}
}

// check ends the main process if the step has failed.
func (b *birth) check(step page.Step, errno syscall.Errno) {
	if errno != 0 {
		b.page.ByLauncher.FailedStep = step
		b.page.ByLauncher.Errno = uint32(errno)
		exit(125)
	}
}

// mapLists maps lists of strings as execve(2) wants them, for processes that borrow this memory or have a
// copy.
func mapLists(lists [][]string) (written [][]uintptr, m memory, e syscall.Errno) {
	words := len(lists) // pointers, one after each list
	size := uintptr(0)  // of the texts
	for _, text := range slices.Concat(lists...) {
		words++
		size += uintptr(len(text)) + 1
	}
	size += 8 * uintptr(words)
	const access = unix.PROT_READ | unix.PROT_WRITE
	const how = unix.MAP_SHARED | unix.MAP_ANONYMOUS
	addr, _, e := syscall.RawSyscall6(unix.SYS_MMAP, 0, size, access, how, ^uintptr(0), 0)
	if e != 0 {
		return nil, m, e
	}
	start := *(*unsafe.Pointer)(unsafe.Pointer(&addr))
	pointers := unsafe.Slice((*uintptr)(start), words)
	texts := unsafe.Slice((*byte)(start), size)[8*words:]
	for _, list := range lists {
		written = append(written, pointers)
		for i, text := range list {
			pointers[i] = uintptr(unsafe.Pointer(unsafe.SliceData(texts)))
			texts = texts[copy(texts, text)+1:]
		}
		pointers = pointers[len(list)+1:]
	}
	return written, memory{addr, size}, 0
}

func addressOf(list []uintptr) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(list))) }
