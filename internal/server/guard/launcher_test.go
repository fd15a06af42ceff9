// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/kernel/linux"
	"github.com/mcpscope/mcpscope/internal/server/page"
	"github.com/mcpscope/mcpscope/test/bed"
)

// This file has a helper in miniature, which removes the group.

const launcherEnv = "GUARD_LAUNCHER"

func TestMain(m *testing.M) {
	switch text := os.Getenv(launcherEnv); {
	case len(os.Args) == 4 && os.Args[1] == "supervise":
		os.Exit(supervise(os.Args[2], os.Args[3]))
	case text != "":
		var c config
		check(json.Unmarshal([]byte(text), &c))
		if c.Gateway {
			os.Exit(c.keepServers())
		}
		os.Exit(launch(&c))
	}
	bed.Main(m)
}

// server is the main process.
type server struct {
	Path          string
	Argv, Env     []string
	Pgid          int // process group to join; 0 makes a new one
	NoFile, Locks unix.Rlimit
	Signals       ClientSignals
}

// config is a test's configuration of launcher and later helpers.
type config struct {
	Server  server
	Parent  string // directory of the group, which is called "server", and of guards; "" is a tree
	Refuses uint32 // errno of clone3
	Managed bool   // the group is made for a manager: the members are in a directory below it
	Dies    int    // so many helpers die at once
	Hangs   bool   // the first helper stops itself
	Idles   bool   // a first helper rests when a signal was forwarded
	Forever bool   // an endless EOF grace
	Program string // of a later helper; "": this program
	Twins   bool   // the launcher forks two guards without a server at a time, and dies
	Strays  bool   // it forks two, knows nothing of the first one, which begins late, and dies
	UID     int    // whom launcher and server run as
	Room    uint64 // RLIMIT_NPROC of the guard

	Gateway bool // it has the guard of a gateway keep servers, until that has no descriptor left
	Starves bool // or has the guard wait with too few
	Servers int  // that it keeps, at most
	Files   unix.Rlimit
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(99)
	}
}

func (c *config) log(on *page.Page, format string, args ...any) {
	_, err := unix.Write(int(on.FD.Keep), fmt.Appendf(nil, format+"\n", args...))
	check(err)
}

func (c *config) payload() string {
	if c.Managed {
		return filepath.Join(c.Parent, "server", "payload")
	}
	return filepath.Join(c.Parent, "server")
}

func openFile(path string, flags int) int {
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0)
	check(err)
	return fd
}

func (c *config) page() *page.Page {
	on, errno := page.New()
	if errno != 0 {
		check(errno)
	}
	on.FD.Keep = 3 // the log
	on.Order.TermGrace = 1e9
	if c.Forever {
		on.Order.EOFGrace = -1
	}
	unix.CloseOnExec(3)
	program := "/proc/self/exe"
	if c.Program != "" {
		program = c.Program
	}
	on.FD.Program = int32(openFile(program, unix.O_PATH))
	self, err := unix.PidfdOpen(os.Getpid(), 0)
	check(err)
	on.FD.Launcher = int32(self)
	on.FD.Stdin = hangup(0)
	if c.Parent != "" {
		on.FD.Parent = int32(openFile(c.Parent, unix.O_DIRECTORY))
		on.FD.Leaf = int32(openFile(c.Parent+"/guards", unix.O_DIRECTORY))
		check(on.SetDirectories("server/payload", "server"))
	}
	text, _ := json.Marshal(c)
	check(on.SetConfig(text))
	return on
}

func launch(c *config) int {
	runtime.LockOSThread()
	on := c.page()
	if c.Refuses != 0 {
		refuseClone3(c.Refuses)
	}
	if c.Twins {
		options := &Options{Name: "guard-test", Argv: []string{"test", "supervise"}, Env: os.Environ(), Hide: CommandLine()}
		for range 2 {
			_, err := Fork(on, options)
			check(err)
		}
		return 0
	}
	if c.Strays {
		c.stray(on)
		return 0
	}
	l := c.plan(on)
	c.live(l)
	l.over = true
	return c.end(l.Over())
}

// stray has the first guard begin when the second one is known, and the group is made.
func (c *config) stray(on *page.Page) {
	options := &Options{Name: "guard-test", Argv: []string{"test", "supervise"}, Hide: CommandLine()}
	check(bed.Write(c.Parent+"/guards/cgroup.freeze", "1"))
	first, err := Fork(on, options)
	check(err)
	check(unix.Close(first.Sock))
	on.FD.Leaf = -1 // that of a process which begins at once
	_, err = Fork(on, options)
	check(err)
	known := on.ByGuard.GuardPID
	check(os.MkdirAll(c.Parent+"/server/payload", 0o700))
	check(bed.Write(c.Parent+"/guards/cgroup.freeze", "0"))
	for !endedWithin(int32(first.PIDFD), 1e8) {
	}
	_, err = os.Stat(c.Parent + "/server/payload")
	c.log(on, "the guard is known: %t, the group is there: %t", on.ByGuard.GuardPID == known, err == nil)
}

// plan starts the server. In the launcher of a test that is done by a Go runtime: other threads go on.
func (c *config) plan(on *page.Page) *Launcher {
	plan := &on.Plan
	plan.IsByMain = true
	copy(plan.ID[:], "test")
	copy(plan.Comm[:], "launcher")
	plan.Launcher = int32(os.Getpid())
	plan.Place.IsTree = c.Parent == ""
	plan.NoFile = c.Server.NoFile
	plan.Signals.Blocked = c.Server.Signals.Blocked
	plan.Signals.Ignored = c.Server.Signals.Ignored
	plan.Vectors.Command = 1
	plan.Vectors.Variables = 0
	on.Order.Managed = c.Managed
	on.Order.PlainEnd = page.MainEnds
	variables := c.Server.Env
	written, _, errno := mapLists([][]string{append([]string{"launcher"}, c.Server.Argv...), variables, {c.Server.Path}})
	if errno != 0 {
		check(errno)
	}
	l := &Launcher{}
	s := &Start{}
	s.Command.Path = written[2][0]
	s.Command.Hide = CommandLine()
	signals := catchSignals()
	ofRuntime := linux.ActionOf(unix.SIGCHLD)
	if !s.resume(l, on.Memory, written[0][:1+len(c.Server.Argv)], written[1][:len(variables)]) {
		check(errors.New("no plan"))
	}
	ofRuntime.Set(unix.SIGCHLD) // a runtime sets its handler only once
	handled := plan.Signals.Blocked | jobSignals
	setMask(&handled, nil)
	if !s.prepareForks(l) {
		check(errors.New("prepare the forks"))
	}
	on.ByHelper.CallHelperAt = 0 // no helper settles the start
	if c.Idles {
		on.ByHelper.CallHelperAt = 1
	}
	s.birth.state.pgid = uintptr(c.Server.Pgid)
	s.birth.state.locks = c.Server.Locks
	if !s.startServer(l) {
		check(fmt.Errorf("%v: %w", plan.Failed.Step, unix.Errno(plan.Failed.Errno)))
	}
	if c.Room != 0 {
		check(unix.Prlimit(int(on.ByGuard.GuardPID), unix.RLIMIT_NPROC, &unix.Rlimit{Cur: c.Room, Max: c.Room}, nil))
	}
	check(unix.Dup3(int(signals), int(l.Signals.fd), unix.O_CLOEXEC))
	null := openFile("/dev/null", unix.O_RDWR)
	check(unix.Dup3(null, 0, 0))
	check(unix.Dup3(null, 1, 0))
	l.reap() // a signal of the child may have come before
	return l
}

// live is the loop of a launcher, in a Go runtime.
func (c *config) live(l *Launcher) {
	for again := true; again; {
		for l.page.ByLauncher.FailedStep != page.StepFork && l.end == NotEnded {
			polls, count, timeout := l.events.arguments(l.keeper.killEach())
			_, _, errno := unix.Syscall6(unix.SYS_PPOLL, polls, count, timeout, 0, 0, 0)
			l.react(errno)
		}
		again = l.exitOrLeave() != toMain
	}
}

// end is what main does at the end of a server.
func (c *config) end(e *Ended) int {
	on := e.Page
	if e.End == NothingLeft {
		c.log(on, "nothing left, %d guards replaced", on.ByLauncher.Guards)
		for c.Parent != "" && unix.Rmdir(c.payload()) == unix.EBUSY {
		}
	}
	e.Dismiss(5e9)
	_ = unix.Rmdir(c.Parent + "/server")
	return statusOn(on)
}

// catchSignals returns a descriptor with a record of each signal, as a signalfd: a runtime has threads that do not
// block them.
func catchSignals() int32 {
	caught := make(chan os.Signal, 64)
	signal.Notify(caught, unix.SIGCHLD, unix.SIGTERM, unix.SIGINT, unix.SIGUSR1)
	var ends [2]int
	check(unix.Pipe2(ends[:], unix.O_CLOEXEC|unix.O_NONBLOCK))
	go func() {
		for sig := range caught {
			record := unix.SignalfdSiginfo{Signo: uint32(sig.(unix.Signal))}
			_, err := unix.Write(ends[1], unsafe.Slice((*byte)(unsafe.Pointer(&record)), signalfdRecord))
			check(err)
		}
	}()
	return int32(ends[0])
}

// supervise is a helper: it writes to the log why the server has ended, and removes the group.
func supervise(memory, sock string) int {
	var fds [2]int
	for i, text := range []string{memory, sock} {
		fd, err := strconv.Atoi(text)
		check(err)
		fds[i] = fd
	}
	on, err := page.Open(fds[0])
	check(err)
	text, err := on.Config()
	check(err)
	c := &config{}
	check(json.Unmarshal(text, c))
	if on.ByGuard.Tasks&page.End == 0 {
		g, err := page.Attach(on, fds[1])
		check(err)
		on.ByHelper.Daemons.UseFound = on.ByGuard.Tasks&page.FindUse != 0
		c.idle(on)
		g.Send(page.WordRest)
		return 0
	}
	name := fmt.Sprint("helper ", on.ByGuard.Generation)
	if on.ByLauncher.Guards > 0 {
		name = "helper of another guard" // which has started one before
	}
	c.log(on, "%s: %s", name, causeText(on.ByGuard.Stop.Cause))
	if c.Hangs && on.ByGuard.Generation == 1 {
		// to this thread, which otherwise runs on until another one has got the signal
		runtime.LockOSThread()
		check(unix.Tgkill(os.Getpid(), unix.Gettid(), unix.SIGSTOP))
		select {} // continued, it does nothing
	}
	if c.Dies >= int(on.ByGuard.Generation) {
		return 1
	}
	g, err := page.Attach(on, fds[1])
	check(err)
	c.remove(on)
	on.ByHelper.Left[0] = '-' // main goes on, and removes the rest
	g.Send(page.WordDone)
	return 0
}

// idle is for a helper that looks after an idle server, and misses a signal just before it rests.
func (c *config) idle(on *page.Page) {
	switch {
	case !c.Idles:
	case on.ByGuard.Generation == 1:
		on.ByHelper.CallHelperAt = 0
		on.ByHelper.Frozen = true
		c.log(on, "idle")
		for on.ByLauncher.Forwarded == 0 {
			time.Sleep(time.Millisecond)
		}
	default:
		on.ByHelper.ForwardedRead = on.ByLauncher.Forwarded
		c.log(on, "woken: %t", on.ByGuard.Thaw.IsNew)
		on.ByGuard.Thaw.IsNew = false
	}
}

// hangup is an epoll set as Page.Stdin has.
func hangup(fd int) int32 {
	set, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	check(err)
	if unix.EpollCtl(set, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLRDHUP}) != nil {
		return -1
	}
	return int32(set)
}

// remove removes the group. A test has no tag, so a tree whose launcher is dead is left.
func (c *config) remove(on *page.Page) {
	if c.Parent == "" {
		_ = unix.Kill(int(on.ByLauncher.MainPID), unix.SIGKILL) // in a pid namespace of the test's
		return
	}
	for unix.Rmdir(c.payload()) == unix.EBUSY {
	}
}

func statusOn(on *page.Page) int {
	ws := unix.WaitStatus(on.Status())
	switch {
	case on.ByLauncher.FailedStep == page.StepExec && unix.Errno(on.ByLauncher.Errno) == unix.ENOENT:
		return 127
	case on.ByLauncher.FailedStep == page.StepExec:
		return 126
	case on.ByLauncher.FailedStep != page.StepNone || !on.Exited():
		return 125
	case ws.Signaled():
		return 128 + int(ws.Signal())
	}
	return ws.ExitStatus()
}

func refuseClone3(errno uint32) {
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_CLONE3, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | errno},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	const allThreads = 1 // SECCOMP_FILTER_FLAG_TSYNC
	_, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, allThreads, uintptr(unsafe.Pointer(&prog)))
	if e != 0 {
		check(e)
	}
}

// The runtime interrupts its threads by SIGURG. Where a client has blocked that, it would stay pending until the
// launcher without a runtime reads it, as if the client had sent it.
func TestHoldLeavesTheRuntimeItsSignal(t *testing.T) {
	const interrupt = 1 << (unix.SIGURG - 1)
	masks := make(chan [2]uint64)
	go func() {
		runtime.LockOSThread() // it ends with its mask
		blocked := uint64(interrupt)
		setMask(&blocked, nil)
		s := &Signals{}
		s.Hold()
		held := uint64(0)
		setMask(&blocked, &held)
		masks <- [2]uint64{held, s.Client.Blocked}
	}()
	got := <-masks
	if held := got[0]; held&interrupt != 0 || held&(1<<(unix.SIGTERM-1)) == 0 {
		t.Errorf("held: %#x, want SIGTERM and not SIGURG", held)
	}
	if client := got[1]; client != interrupt {
		t.Errorf("of the client: %#x, want SIGURG alone", client)
	}
}

// A signal for an idle server wakes it, also if it comes just before its helper rests.
func TestSignalBeforeAHelperRests(t *testing.T) {
	r := start(t, "trap '' USR1; echo up; while read -r line; do :; done", func(c *config) { c.Idles = true })
	r.line()
	r.wantLog("idle")
	if err := r.Process.Signal(unix.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	r.wantLog("idle, woken: true")
	r.stdin.Close()
	r.status() // it exits, or a helper kills it
	r.wantNothing()
}

// An interrupt of the runtime can be pending when the launcher executes itself. The server does not get it. A
// SIGURG of the client is passed on.
func TestAnInterruptOfTheRuntimeIsNotPassedOn(t *testing.T) {
	runtime.LockOSThread() // it ends with its mask
	interrupt := uint64(1 << (unix.SIGURG - 1))
	setMask(&interrupt, nil)
	s := &Signals{read: interrupt}
	if e := s.open(); e != 0 {
		t.Fatal(e)
	}
	defer unix.Close(int(s.fd))
	if err := unix.Tgkill(os.Getpid(), unix.Gettid(), unix.SIGURG); err != nil {
		t.Fatal(err)
	}
	var buf [512]byte
	n := s.receive(&buf)
	if n != signalfdRecord || !isOfRuntime(&buf, 0) {
		t.Fatalf("%d bytes, % x", n, buf[:16])
	}
	got := *(*unix.SignalfdSiginfo)(unsafe.Pointer(&buf))
	byKill := got
	byKill.Code = 0 // SI_USER
	bySomebody := got
	bySomebody.Pid++
	another := got
	another.Signo = uint32(unix.SIGUSR1)
	for name, record := range map[string]unix.SignalfdSiginfo{"by kill(2)": byKill, "by another process": bySomebody, "another signal": another} {
		*(*unix.SignalfdSiginfo)(unsafe.Pointer(&buf[signalfdRecord])) = record
		if isOfRuntime(&buf, signalfdRecord) {
			t.Errorf("%s: it is dropped", name)
		}
	}
}
