// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package guard

import (
	"fmt"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/page"
)

// MainProcess describes the main process.
type MainProcess struct {
	Path      string
	Argv, Env []string
	Pgid      int         // process group to join; 0 makes a new one
	NoFile    unix.Rlimit // RLIMIT_NOFILE: the runtime has raised the launcher's
	Locks     unix.Rlimit // RLIMIT_LOCKS, the tag
	Signals   ClientSignals
	Stderr    int // the descriptor that becomes 2; 0 keeps the launcher's
}

// birth is the memory of the main process until its exec.
type birth struct {
	child    child
	page     *page.Page
	launcher int32  // pid
	texts    memory // of program
	program  program
	state    state
	payload  int32 // where it has to be, or -1
	sock     int32 // of a process that waits for its start, or -1
	sends    int32 // the launcher's end
	rights   rights
}

// program has the arguments of execve(2).
type program struct {
	path, argv, env  uintptr
	shell, shellArgv uintptr // for a file without "#!", as execvp(3)
}

// state is the rest of MainProcess as system calls want it.
type state struct {
	pgid, stderr  uintptr
	mask          uint64 // signal n is bit n-1
	ignores       uint64 // signals to be ignored, the same
	nofile, locks unix.Rlimit
}

// newBirth maps and fills the memory of the main process.
func newBirth(on *page.Page, s *MainProcess) (*birth, error) {
	shell := append([]string{"/bin/sh", s.Path}, s.Argv[min(1, len(s.Argv)):]...)
	lists := [][]string{s.Argv, s.Env, shell}
	text, texts, errno := mapLists(lists)
	if errno != 0 {
		return nil, fmt.Errorf("prepare the server: %w", errno)
	}
	addr, errno := mapChild(unsafe.Sizeof(birth{}), roleMain)
	if errno != 0 {
		return nil, fmt.Errorf("prepare the server: %w", errno)
	}
	b := *(**birth)(unsafe.Pointer(&addr))
	b.page = on
	b.texts = texts
	b.launcher = int32(unix.Getpid())
	b.payload = -1
	b.sock = -1
	b.sends = -1
	b.program.argv = addressOf(text[0])
	b.program.env = addressOf(text[1])
	b.program.path = text[2][1]
	b.program.shell = text[2][0]
	b.program.shellArgv = addressOf(text[2])
	b.state.pgid = uintptr(s.Pgid)
	b.state.stderr = uintptr(s.Stderr)
	b.state.mask = s.Signals.Blocked
	b.state.ignores = s.Signals.Ignored
	b.state.nofile = s.NoFile
	b.state.locks = s.Locks
	return b, nil
}

// prefork forks the main process, which waits for a word on the socket.
func (b *birth) prefork() (waiting int32, e syscall.Errno) {
	var ends [2]int32
	e = socketPair(&ends)
	if e != 0 {
		return -1, e
	}
	b.sends = ends[0]
	b.sock = ends[1]
	keepInForks(uintptr(unsafe.Pointer(b)), b.child.size) // the guard was forked without it
	keepInForks(b.texts.at, b.texts.size)
	if copiesAll() {
		keepInForks(ownMemory())
	}
	e = b.child.forkHere(shareNothing, uint64(unix.SIGCHLD))
	closeFD(ends[1])
	if e != 0 {
		closeFD(ends[0])
		return -1, e
	}
	closeFD(b.child.pidfd)
	return ends[0], 0
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
		word, flags := receive(b.sock, &b.rights, 0)
		if word != page.WordGo {
			exit(125)
		}
		if flags&truncatedWord != 0 { // without the group it would run outside
			b.check(page.StepJoin, syscall.EMFILE)
		}
		b.payload = b.rights.fds[0]
	}
	if b.payload >= 0 && (b.child.joins || b.child.cgroup < 0) {
		b.check(page.StepJoin, writeFile(b.payload, procsFile, '0'))
	}
	pid, _ := sys(unix.SYS_GETPID, 0, 0, 0, 0, 0)
	b.page.ByLauncher.MainPID = int32(pid) // the launcher may be killed before it can write that
	_, e := sys(unix.SYS_SETPGID, 0, b.state.pgid, 0, 0, 0)
	b.check(page.StepProcessGroup, e)
	if b.state.stderr != 0 {
		sys(unix.SYS_DUP3, b.state.stderr, 2, 0, 0, 0) // both are open, so it can't fail
	}
	_, e = sys(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_NOFILE, uintptr(unsafe.Pointer(&b.state.nofile)), 0, 0)
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
	_, e = sys(unix.SYS_EXECVE, b.program.path, b.program.argv, b.program.env, 0, 0)
	if e == syscall.ENOEXEC {
		_, e = sys(unix.SYS_EXECVE, b.program.shell, b.program.shellArgv, b.program.env, 0, 0)
	}
	b.check(page.StepExec, e)
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
