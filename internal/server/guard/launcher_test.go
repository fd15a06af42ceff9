// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/page"
	"github.com/mcpscope/mcpscope/test/bed"
)

// This file has a brain in miniature. It has no grace: at the first event it kills the group.

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

// config is a test's configuration of launcher and later brains.
type config struct {
	Server  Server
	Parent  string // directory of the group, which is called "server", and of guards; "" is a tree
	Refuses uint32 // errno of clone3
	Crowds  bool   // a scope: the guard moves to a leaf
	Dies    int    // so many later brains die at once
	Hangs   bool   // the first later brain stops itself
	NoGrace bool
	Program string // of a later brain; "": this program
	Twins   bool   // the launcher forks two guards without a server at a time, and dies
	UID     int    // whom launcher and server run as
	Room    uint64 // RLIMIT_NPROC
	Full    bool   // the guard has no descriptor left

	Gateway bool // it has the guard of a gateway keep servers, until that has no descriptor left
	Servers int  // that it keeps, at most
	Files   unix.Rlimit
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(99)
	}
}

type brain struct {
	*config
	page  *page.Page
	guard *page.Guard
	reign uint32
	cause string
	lost  bool
}

func (b *brain) log(format string, args ...any) {
	_, err := unix.Write(int(b.page.Keep), fmt.Appendf(nil, format+"\n", args...))
	check(err)
}

func (c *config) payload() string {
	if c.Crowds {
		return filepath.Join(c.Parent, "server", "payload")
	}
	return filepath.Join(c.Parent, "server")
}

func launch(c *config) int {
	// A test binary has a larger heap than a launcher. It is not to grow between leaveOut and the fork, which would copy that part.
	runtime.KeepAlive(make([]byte, 8<<20))
	on, errno := page.New()
	if errno != 0 {
		check(errno)
	}
	on.Keep, on.Graceless = 3, c.NoGrace // 3: the log
	unix.CloseOnExec(3)
	open := func(path string, flags int) int {
		fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0)
		check(err)
		return fd
	}
	program := "/proc/self/exe"
	if c.Program != "" {
		program = c.Program
	}
	on.Program = int32(open(program, unix.O_PATH))
	self, err := unix.PidfdOpen(os.Getpid(), 0)
	check(err)
	on.Launcher = int32(self)
	on.Stdin = hangup(0)
	if c.Parent != "" {
		on.Parent, on.Leaf = int32(open(c.Parent, unix.O_PATH)), int32(open(c.Parent+"/guards", unix.O_DIRECTORY))
		check(on.SetDirectories("server/payload", "server/leaf", "server"))
	}
	text, _ := json.Marshal(c)
	check(on.SetConfig(text))
	if c.Refuses != 0 {
		refuseClone3(c.Refuses)
	}
	if c.Twins {
		var twins [2]*process
		for i := range twins {
			twins[i], err = newProcess(on, nil, &Options{Name: "mcp-test"})
			check(err)
		}
		for _, p := range twins {
			if _, errno := p.start(); errno != 0 {
				check(errno)
			}
		}
		return 0
	}
	if c.Room != 0 {
		check(unix.Setrlimit(unix.RLIMIT_NPROC, &unix.Rlimit{Cur: c.Room, Max: c.Room}))
	}
	g, err := Fork(on, &c.Server, &Options{Name: "mcp-test", Argv: []string{"test", "supervise"}, Env: os.Environ()})
	check(err)
	if c.Full {
		check(unix.Prlimit(int(on.GuardPID), unix.RLIMIT_NOFILE, &unix.Rlimit{Max: c.Server.NoFile.Max}, nil))
	}
	payload, leaf := -1, -1
	if c.Parent != "" {
		check(os.Mkdir(c.Parent+"/server", 0o700))
		if c.Crowds {
			check(os.Mkdir(c.Parent+"/server/leaf", 0o700))
			check(os.Mkdir(c.payload(), 0o700))
			leaf = open(c.Parent+"/server/leaf", unix.O_DIRECTORY)
		}
		payload = open(c.payload(), unix.O_DIRECTORY)
		check(unix.Flock(payload, unix.LOCK_EX|unix.LOCK_NB))
	}
	b := &brain{config: c, page: on, guard: g}
	if g.Go(payload, leaf) != 0 {
		b.cause, b.lost = "guard died", true
	}
	for _, fd := range []int{0, payload, leaf} {
		_ = unix.Close(fd)
	}
	return b.run()
}

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
	b := &brain{config: &config{}, page: on, reign: on.Reign}
	check(json.Unmarshal(text, b.config))
	state := ""
	if text, _ := os.ReadFile(b.payload() + "/cgroup.freeze"); string(text) == "1\n" {
		state = ", frozen"
	}
	b.log("brain %d%s", b.reign, state)
	if b.Hangs && b.reign == 1 {
		// to this thread, which otherwise runs on until another one has got the signal
		runtime.LockOSThread()
		check(unix.Tgkill(os.Getpid(), unix.Gettid(), unix.SIGSTOP))
	}
	if b.Dies >= int(b.reign) {
		return 1
	}
	b.guard, err = page.Attach(on, fds[1])
	check(err)
	b.cause = "take-over"
	return b.run()
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

// run returns the status.
func (b *brain) run() int {
	for b.cause == "" {
		fds := []unix.PollFd{{Fd: int32(b.guard.Sock), Events: unix.POLLIN}, {Fd: b.page.Stdin, Events: unix.POLLIN}}
		timeout := -1
		if b.page.MainPID == 0 {
			fds[1].Fd = -1 // a kill would come before the birth
			timeout = 1    // the server may stop the guard before it reports the birth
		}
		if _, err := unix.Poll(fds, timeout); err == unix.EINTR {
			continue
		}
		switch {
		case b.page.Reign != b.reign:
			_, _ = unix.Poll([]unix.PollFd{{Fd: int32(b.guard.PIDFD), Events: unix.POLLIN}}, -1)
			b.log("deposed %d", b.reign)
			return b.status()
		case fds[0].Revents != 0 && b.guard.Drain():
			b.cause, b.lost = "guard died", true
		case b.page.FailedStep != page.StepNone:
			b.cause = "failed"
		case b.page.Exited:
			b.cause = "main exited"
		case b.page.Requests != 0:
			b.cause = fmt.Sprint("requests ", b.page.Requests)
		case b.page.Stops != 0:
			b.cause = fmt.Sprint("stopped by ", b.page.StopSignal)
		case fds[1].Revents != 0:
			b.cause = "stdin closed"
		}
	}
	b.log("%s %d", b.cause, b.reign)
	b.page.Phase = page.Running + 1
	b.guard.Look() // as a launcher, which sets Page.Due
	b.kill()
	b.guard.Send(page.WordDone)
	return b.status()
}

func (b *brain) kill() {
	if b.Parent == "" {
		b.killTree()
	}
	for b.Parent != "" {
		_ = bed.Write(b.payload()+"/cgroup.kill", "1")
		if empty, err := bed.Empty(b.payload()); err == nil && empty {
			break
		}
	}
	for !b.lost && !b.page.Exited && b.page.FailedStep == page.StepNone {
		_, _ = unix.Poll([]unix.PollFd{{Fd: int32(b.guard.Sock), Events: unix.POLLIN}}, -1)
		b.lost = b.guard.Drain()
	}
	if b.Parent == "" {
		return
	}
	if b.Crowds { // the guard is in the way
		b.guard.Send(page.WordDone)
		_, _ = unix.Poll([]unix.PollFd{{Fd: int32(b.guard.PIDFD), Events: unix.POLLIN}}, -1)
		_ = unix.Rmdir(b.payload())
		_ = unix.Rmdir(b.Parent + "/server/leaf")
	}
	for unix.Rmdir(b.Parent+"/server") == unix.EBUSY {
	}
}

// killTree kills children of the guard until only this brain is left.
func (b *brain) killTree() {
	for file := fmt.Sprintf("/proc/%d/task/%d/children", b.page.GuardPID, b.page.GuardPID); ; {
		text, _ := os.ReadFile(file)
		left := false
		for _, word := range strings.Fields(string(text)) {
			if pid, _ := strconv.Atoi(word); pid != os.Getpid() {
				left = true
				_ = unix.Kill(pid, unix.SIGKILL) // in a pid namespace of the test's
			}
		}
		if !left {
			return
		}
	}
}

func (b *brain) status() int {
	ws := unix.WaitStatus(b.page.Status)
	switch {
	case b.page.FailedStep == page.StepExec && unix.Errno(b.page.Errno) == unix.ENOENT:
		return 127
	case b.page.FailedStep == page.StepExec:
		return 126
	case b.page.FailedStep != page.StepNone || !b.page.Exited:
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
