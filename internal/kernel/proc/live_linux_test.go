// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
)

// leaderless makes the test binary a process whose first thread has ended and
// whose others (the runtime always has one) run on until the end of stdin.
const leaderless = "TESTS_LEADERLESS"

func TestMain(m *testing.M) {
	if os.Getenv(leaderless) != "" {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin) // until the test has ended
			os.Exit(1)
		}()
		_, _, _ = unix.Syscall(unix.SYS_EXIT, 0, 0, 0) // of the first thread, which bed locks, so it does not return
	}
	bed.Main(m)
}

// start starts a command that lives until the test ends: if nothing else, its stdin does.
func start(t *testing.T, cmd *exec.Cmd) int {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err = errors.Join(err, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		reap(cmd)
	})
	return cmd.Process.Pid
}

func sleeper(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("cat")
	start(t, cmd)
	return cmd
}

func reap(cmd *exec.Cmd) {
	_ = cmd.Process.Kill() // it may have been ended by the test
	_ = cmd.Wait()         // "signal: killed", or waited for already
}

// zombify ends a child and returns while it is unreaped.
func zombify(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatalf("wait for the zombie: %v", err)
	}
}

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func TestReadStatAndStatus(t *testing.T) {
	self := must[Stat](t)(ReadStat(os.Getpid()))
	if self.PID != os.Getpid() || self.PPID != os.Getppid() || self.Threads < 2 || self.StartTime == 0 {
		t.Errorf("self: %+v", self)
	}
	s := must[Status](t)(ReadStatus(os.Getpid()))
	if s.Tgid != os.Getpid() || s.UID[0] != os.Getuid() {
		t.Errorf("self: %+v", s)
	}
	child := sleeper(t)
	zombify(t, child)
	if s := must[Stat](t)(ReadStat(child.Process.Pid)); s.State != 'Z' || s.PPID != os.Getpid() ||
		s.StartTime < self.StartTime {
		t.Errorf("zombie: %+v", s)
	}
	if s := must[Status](t)(ReadStatus(child.Process.Pid)); s.Tgid != child.Process.Pid {
		t.Errorf("zombie: %+v", s)
	}
}

// A leaderless process is a zombie by its state and its arguments, but lives.
func TestLeaderless(t *testing.T) {
	cmd := exec.Command(must[string](t)(os.Executable()))
	cmd.Env = append(os.Environ(), leaderless+"=1")
	pid := start(t, cmd)
	s := must[Stat](t)(ReadStat(pid))
	for ; s.State != 'Z'; s = must[Stat](t)(ReadStat(pid)) { // the exit of a thread is no event
		runtime.Gosched()
	}
	if s.Threads < 2 {
		t.Errorf("leaderless: %+v", s)
	}
	zombify(t, cmd)
	if s, err := ReadStat(pid); err != nil || s.State != 'Z' || s.Threads > 1 {
		t.Errorf("killed: %+v, %v", s, err)
	}
}

// /proc/TID is there for a thread too, so one that ends with this test lends its name.
func TestHostileComm(t *testing.T) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends here
		for _, comm := range []string{"a)\n (b\\\t\x01\xffz", `x\ny) R 1 2`, ") Z 0 0 0"} {
			text := append([]byte(comm), 0)
			if err := unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&text[0])), 0, 0, 0); err != nil {
				t.Errorf("name thread: %v", err)
			}
			if stat, err := ReadStat(unix.Gettid()); err != nil || stat.Comm != comm ||
				stat.PPID != os.Getppid() {
				t.Errorf("comm %q: stat %+v, %v", comm, stat, err)
			}
			if status, err := ReadStatus(unix.Gettid()); err != nil || status.Tgid != os.Getpid() {
				t.Errorf("comm %q: status %+v, %v", comm, status, err)
			}
		}
	}()
	<-done
}

// readers are all functions that take a pid and give an error.
var readers = map[string]func(pid int) error{
	"stat":     func(pid int) error { _, err := ReadStat(pid); return err },
	"status":   func(pid int) error { _, err := ReadStatus(pid); return err },
	"cgroup":   func(pid int) error { _, err := ReadCgroup(pid); return err },
	"children": func(pid int) error { _, err := Children(pid); return err },
}

func TestGone(t *testing.T) {
	child := sleeper(t)
	pid := child.Process.Pid
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/stat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	reap(child)
	for name, read := range readers {
		if err := read(pid); !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ESRCH) {
			t.Errorf("%s of a gone process: %v", name, err)
		}
		if err := read(os.Getpid()); err != nil {
			t.Errorf("%s of this process: %v", name, err)
		}
	}
	// between open and read the kernel says ESRCH, not ENOENT
	_, err = unix.Read(fd, make([]byte, 64))
	if !errors.Is(err, unix.ESRCH) || !Exited(pid) {
		t.Errorf("got %v", err)
	}
}

// A process that lives has not exited, whatever can be read of it.
func TestUnseenIsNotGone(t *testing.T) {
	if Exited(os.Getpid()) || Exited(1) {
		t.Error("we have exited, or the first process")
	}
}

// awaitCmdline: Start returns within the child's execve.
func awaitCmdline(pid int) {
	for Cmdline(pid, 1) == "" {
		runtime.Gosched()
	}
}

func TestCmdline(t *testing.T) {
	cmd := exec.Command("cat")
	cmd.Args = []string{"my server", "-", "", "-", ""} // ends as one that has filled its old arguments with zeros
	pid := start(t, cmd)
	awaitCmdline(pid)
	for max, want := range map[int]string{4096: "my server -  -", 11: "my server -", 9: "my server", 1: "m",
		0: ""} {
		if got := Cmdline(pid, max); got != want {
			t.Errorf("at most %d bytes: %q, want %q", max, got, want)
		}
	}
	zombify(t, cmd)
	if got := Cmdline(pid, 100); got != "" {
		t.Errorf("zombie: %q", got)
	}
	long := strings.Repeat("x", 20000) // more than one read
	pid = start(t, exec.Command("sh", "-c", "read line", long))
	awaitCmdline(pid)
	if got := Cmdline(pid, 1<<20); got != "sh -c read line "+long {
		t.Errorf("got %d bytes", len(got))
	}
	if got := Cmdline(pid, 9000); len(got) != 9000 {
		t.Errorf("got %d bytes, want 9000", len(got))
	}
}

// Of a process with a child that lives, a zombie, and one of another thread, which has a child of its own.
func TestChildren(t *testing.T) {
	live := sleeper(t)
	dead := sleeper(t)
	zombify(t, dead)
	held, _ := bed.Pipe(t)
	parents := make(chan *exec.Cmd)
	done := make(chan struct{})
	defer close(done)
	go func() {
		defer close(parents)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		cmd := exec.Command("sh", "-c", "cat <&3 & echo $!; wait")
		cmd.ExtraFiles = []*os.File{held}
		out, err := cmd.StdoutPipe()
		if err == nil {
			start(t, cmd)
			_, err = out.Read(make([]byte, 1))
		}
		if err != nil {
			t.Error(err)
		}
		parents <- cmd
		<-done // so that the thread keeps its child while we look
	}()
	cmd, started := <-parents
	if !started {
		return
	}
	parent := cmd.Process.Pid
	want := []int{live.Process.Pid, dead.Process.Pid, parent}
	slices.Sort(want)
	if got, err := Children(os.Getpid()); err != nil || !slices.Equal(got, want) {
		t.Errorf("ours: %v, %v, want %v", got, err, want)
	}
	for pid, n := range map[int]int{parent: 1, live.Process.Pid: 0, dead.Process.Pid: 0} {
		if got, err := Children(pid); err != nil || len(got) != n {
			t.Errorf("of %d: %v, %v, want %d", pid, got, err, n)
		}
	}
}

// The path of a process that is alive, a zombie, or in a removed directory.
func TestReadCgroupOfOddNames(t *testing.T) {
	for _, name := range []string{"plain", "odd (deleted)", `odd\012`, "odd\t\x01\xff", "0::"} {
		dir := filepath.Join(bed.Group(t, "proc"), name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		fd, err := unix.Open(dir, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		child := exec.Command("cat")
		child.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: fd}
		pid := start(t, child)
		path := strings.TrimPrefix(dir, bed.Root(t))
		if got, err := ReadCgroup(pid); err != nil || got != path {
			t.Errorf("alive: %q, %v, want %q", got, err, path)
		}
		zombify(t, child)
		if err := os.Remove(dir); err != nil {
			t.Fatal(err)
		}
		if got, err := ReadCgroup(pid); err != nil || got != path+" (deleted)" {
			t.Errorf("removed: %q, %v, want %q", got, err, path)
		}
	}
	if err := os.Mkdir(filepath.Join(bed.Group(t, "proc"), "x\n0::"), 0o755); !errors.Is(err, unix.EINVAL) {
		t.Errorf("mkdir of a name with a newline, which the file's lines rest on: %v, want EINVAL", err)
	}
}
