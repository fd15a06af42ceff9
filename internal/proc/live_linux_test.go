// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// sleeper starts a child that sleeps until the test ends.
func sleeper(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sleep", "600")
	start(t, cmd)
	return cmd
}

func start(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { reap(cmd) })
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

// goneProcess is the pid of a child that was reaped a moment ago.
func goneProcess(t *testing.T) int {
	t.Helper()
	cmd := sleeper(t)
	reap(cmd)
	return cmd.Process.Pid
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

func TestReadStatOfSelfAndChild(t *testing.T) {
	self := must[Stat](t)(ReadStat(os.Getpid()))
	if self.PID != os.Getpid() || self.PPID != os.Getppid() || self.Pgrp != unix.Getpgrp() || self.Threads < 2 || self.StartTime == 0 {
		t.Errorf("self: %+v", self)
	}
	child := sleeper(t)
	s := must[Stat](t)(ReadStat(child.Process.Pid))
	if s.PID != child.Process.Pid || s.PPID != os.Getpid() || s.Session != self.Session || s.StartTime < self.StartTime || s.Threads != 1 {
		t.Errorf("child: %+v", s)
	}
	zombify(t, child)
	if s := must[Stat](t)(ReadStat(child.Process.Pid)); s.State != 'Z' || s.PPID != os.Getpid() {
		t.Errorf("zombie: %+v", s)
	}
}

func TestReadStatusOfSelfAndChild(t *testing.T) {
	signal.Ignore(syscall.SIGUSR2)
	defer signal.Reset(syscall.SIGUSR2)
	s := must[Status](t)(ReadStatus(os.Getpid()))
	if s.Tgid != os.Getpid() || s.PPid != os.Getppid() || s.UID[0] != os.Getuid() || s.GID[1] != os.Getegid() {
		t.Errorf("self: %+v", s)
	}
	if len(s.NSpid) == 0 || s.NSpid[0] != os.Getpid() {
		t.Errorf("self in its namespaces: %v", s.NSpid)
	}
	if s.SigIgn&(1<<(syscall.SIGUSR2-1)) == 0 || s.SigCgt&(1<<(syscall.SIGURG-1)) == 0 {
		t.Errorf("USR2 is ignored and URG caught by the runtime, got %x and %x", s.SigIgn, s.SigCgt)
	}
	child := sleeper(t)
	zombify(t, child)
	if s := must[Status](t)(ReadStatus(child.Process.Pid)); s.State != 'Z' || s.Tgid != child.Process.Pid {
		t.Errorf("zombie: %+v", s)
	}
}

// TestHostileComm: /proc/TID is there for a thread too, so one that ends with
// this test lends its name.
func TestHostileComm(t *testing.T) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends here
		for _, comm := range []string{"a)\n (b\\\t\x01\xffz", `x\ny) R 1 2`, `\`, ") Z 0 0 0"} {
			checkComm(t, comm)
		}
	}()
	<-done
}

func checkComm(t *testing.T, comm string) {
	if err := setComm(comm); err != nil {
		t.Errorf("name thread: %v", err)
		return
	}
	stat, err := ReadStat(unix.Gettid())
	if err != nil || stat.Comm != comm || stat.PID != unix.Gettid() || stat.PPID != os.Getppid() {
		t.Errorf("comm %q: stat %+v, %v", comm, stat, err)
	}
	status, err := ReadStatus(unix.Gettid())
	if err != nil || status.Name != comm || status.Tgid != os.Getpid() {
		t.Errorf("comm %q: status %+v, %v", comm, status, err)
	}
}

func setComm(comm string) error {
	b, err := unix.ByteSliceFromString(comm)
	if err != nil {
		return err
	}
	return unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&b[0])), 0, 0, 0)
}

func TestGone(t *testing.T) {
	pid := goneProcess(t)
	for name, read := range readers {
		if err := read(pid); !errors.Is(err, ErrGone) || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ESRCH) {
			t.Errorf("%s of a gone process: %v", name, err)
		}
	}
	if s := Wchan(pid); s != "" {
		t.Errorf("wchan of a gone process: %q", s)
	}
}

// TestGoneBetweenOpenAndRead: the kernel then says ESRCH, not ENOENT.
func TestGoneBetweenOpenAndRead(t *testing.T) {
	child := sleeper(t)
	fd, err := open(pidPath(child.Process.Pid) + "/stat")
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	reap(child)
	_, err = ReadAll(fd, noLimit)
	if err := markGone(child.Process.Pid, err); !errors.Is(err, ErrGone) || !errors.Is(err, unix.ESRCH) {
		t.Errorf("got %v", err)
	}
}

// TestUnseenIsNotGone: ENOENT alone proves nothing about a process that lives.
func TestUnseenIsNotGone(t *testing.T) {
	if err := markGone(os.Getpid(), unix.ENOENT); errors.Is(err, ErrGone) {
		t.Errorf("got %v for ourselves", err)
	}
	if _, err := readPID(os.Getpid(), "no-such-file"); !errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrGone) {
		t.Errorf("got %v for a file that no kernel has", err)
	}
	if err := markGone(1, unix.EACCES); errors.Is(err, ErrGone) || !errors.Is(err, unix.EACCES) {
		t.Errorf("got %v for a refusal", err)
	}
}

func TestPIDsThatAreNone(t *testing.T) {
	for name, read := range readers {
		for _, pid := range []int{-1, 0} {
			if name == "cgroup" && pid == 0 {
				continue
			}
			if err := read(pid); !errors.Is(err, unix.EINVAL) {
				t.Errorf("%s of pid %d: %v", name, pid, err)
			}
		}
	}
}

// readers are all functions that take a pid and give an error.
var readers = map[string]func(pid int) error{
	"stat":             func(pid int) error { _, err := ReadStat(pid); return err },
	"status":           func(pid int) error { _, err := ReadStatus(pid); return err },
	"cgroup":           func(pid int) error { _, _, err := ReadCgroup(pid); return err },
	"cmdline":          func(pid int) error { _, err := Cmdline(pid, 10); return err },
	"children":         func(pid int) error { _, err := Children(pid); return err },
	"children by task": func(pid int) error { _, err := childrenByTask(pid); return err },
	"children by scan": func(pid int) error { _, err := childrenByScan(pid); return err },
}

// awaitCmdline: Start returns within the child's execve.
func awaitCmdline(t *testing.T, pid int) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); runtime.Gosched() {
		if got, err := Cmdline(pid, 1); err != nil || got != "" {
			return
		}
	}
	t.Fatal("no arguments of a child within 10 s")
}

func TestCmdline(t *testing.T) {
	cmd := exec.Command("sleep", "600")
	cmd.Args = []string{"my\x1bserver", "600"}
	start(t, cmd)
	pid := cmd.Process.Pid
	awaitCmdline(t, pid)
	for max, want := range map[int]string{4096: "my?server 600", 13: "my?server 600", 12: "my?server 60", 10: "my?server", 1: "m", 0: "", -1: ""} {
		if got, err := Cmdline(pid, max); err != nil || got != want {
			t.Errorf("at most %d bytes: %q, %v, want %q", max, got, err, want)
		}
	}
	zombify(t, cmd)
	if got, err := Cmdline(pid, 100); err != nil || got != "" {
		t.Errorf("zombie: %q, %v", got, err)
	}
}

func TestCmdlineLongerThanOneRead(t *testing.T) {
	long := strings.Repeat("x", 20000)
	cmd := exec.Command("sh", "-c", "read line", long)
	stdin := must[interface{ Close() error }](t)(cmd.StdinPipe()) // keeps it waiting
	defer stdin.Close()
	start(t, cmd)
	awaitCmdline(t, cmd.Process.Pid)
	if got, err := Cmdline(cmd.Process.Pid, 1<<20); err != nil || got != "sh -c read line "+long {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
	if got, err := Cmdline(cmd.Process.Pid, 9000); err != nil || len(got) != 9000 {
		t.Errorf("got %d bytes, %v, want 9000", len(got), err)
	}
}

func TestWchan(t *testing.T) {
	b, err := os.ReadFile("/proc/self/wchan")
	if err != nil || string(b) == "" {
		t.Logf("no wchan on this kernel: %q, %v", b, err)
	}
	if got := Wchan(sleeper(t).Process.Pid); got == "0" || strings.ContainsAny(got, "\n ") {
		t.Errorf("got %q", got)
	}
}

func TestReadCgroup2MountsLive(t *testing.T) {
	mounts := must[[]Mount](t)(ReadCgroup2Mounts())
	for _, m := range mounts {
		var fs unix.Statfs_t
		if err := unix.Statfs(m.Target, &fs); err == nil && fs.Type != unix.CGROUP2_SUPER_MAGIC {
			t.Logf("%+v is hidden by another mount", m)
		}
		if !filepath.IsAbs(m.Target) || !strings.HasPrefix(m.Root, "/") {
			t.Errorf("got %+v", m)
		}
	}
}

func TestReadCgroupOfSelf(t *testing.T) {
	path, deleted, err := ReadCgroup(0)
	if errors.Is(err, ErrNoCgroup2) {
		b, _ := os.ReadFile("/proc/self/cgroup")
		if strings.Contains("\n"+string(b), "\n0::") {
			t.Errorf("%v, but: %s", err, b)
		}
		return
	}
	if err != nil || deleted || !strings.HasPrefix(path, "/") {
		t.Fatalf("got %q, %v, %v", path, deleted, err)
	}
	if byPID, _, err := ReadCgroup(os.Getpid()); err != nil || byPID != path {
		t.Errorf("by pid %q, %v, as self %q", byPID, err, path)
	}
}

func sorted(pids ...int) []int {
	slices.Sort(pids)
	return pids
}
