// SPDX-License-Identifier: Apache-2.0

package notify

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A filter is for ever, so it is installed in a process of its own: this binary once more.
const stageEnv = "NOTIFY_STAGE"

func init() { runtime.LockOSThread() } // a thread's execve has the number of that thread

func TestMain(m *testing.M) {
	if os.Getenv(stageEnv) == "" {
		os.Exit(m.Run())
	}
	fd, errno := Install(false, os.Getenv(stageEnv) == "begun")
	err := Explain(errno)
	if errno == 0 {
		err = unix.Sendmsg(3, []byte("listener"), unix.UnixRights(fd), nil, 0)
	}
	if err == nil {
		err = Exec("/bin/sh", []string{"sh", "-c", "/bin/true; exit 7"}, nil)
	}
	os.Stderr.WriteString(err.Error())
	os.Exit(1)
}

// stage starts a process with the filter, which waits to execute a shell.
func stage(t *testing.T, how string) (*exec.Cmd, int) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root may have a filter without no_new_privs")
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours := fds[0]
	theirs := os.NewFile(uintptr(fds[1]), "theirs")
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = []string{stageEnv + "=" + how}
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
	})
	theirs.Close()
	oob := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(ours, make([]byte, 16), oob, unix.MSG_CMSG_CLOEXEC)
	_ = unix.Close(ours)
	if err != nil {
		t.Fatal(err)
	}
	messages, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil || len(messages) == 0 {
		t.Fatalf("no listener: %v", err)
	}
	rights, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		t.Fatal(err)
	}
	return cmd, rights[0]
}

func open(t *testing.T, fd int, held []Request, left int) (*Listener, []*Request) {
	t.Helper()
	l, all := Open(fd, held)
	if len(all) != left {
		t.Fatalf("%d requests were left, want %d", len(all), left)
	}
	return l, all
}

// listen starts a stage and opens its listener.
func listen(t *testing.T, how string) (cmd *exec.Cmd, l *Listener, fd int, held []Request) {
	t.Helper()
	cmd, fd = stage(t, how)
	held = make([]Request, 128)
	l, _ = open(t, fd, held, 0)
	return cmd, l, fd, held
}

func wantStatus(t *testing.T, cmd *exec.Cmd, want int) {
	t.Helper()
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != want {
		t.Errorf("it ended with %v, want %d", err, want)
	}
}

// A successor finds the requests that were received and not answered, and no others.
func TestTakeOver(t *testing.T) {
	cmd, first, fd, held := listen(t, "execve")
	r, err := first.Receive()
	if err != nil || int(r.TID) != cmd.Process.Pid || r.Call != unix.SYS_EXECVE {
		t.Fatalf("%+v, %v; the stage is %d", r, err, cmd.Process.Pid)
	}
	if catches(t, cmd.Process.Pid, unix.SIGURG) {
		t.Error("SIGURG, by which Go preempts threads, aborts the execve that waits")
	}
	if err := first.ReplaceDescriptor(r, 2, fd); err != nil {
		t.Errorf("replace its stderr: %v", err)
	}
	if to, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/2", r.TID)); !strings.HasPrefix(to, "anon_inode:seccomp") {
		t.Errorf("its stderr is %s (%v)", to, err)
	}
	first.Continue(r)
	r, err = first.Receive() // the shell's child, which waits from now on
	if err != nil || int(r.TID) == cmd.Process.Pid {
		t.Fatalf("%+v, %v", r, err)
	}
	second, left := open(t, fd, held, 1)
	if left[0].TID != r.TID || !second.Valid(left[0]) {
		t.Errorf("left: %+v, want %+v", left[0], r)
	}
	second.Continue(left[0])
	wantStatus(t, cmd, 7)
	if _, err := second.Receive(); err != io.EOF {
		t.Errorf("with nobody left: %v", err)
	}
	open(t, fd, held, 0)
}

// A call that is refused fails, and the caller goes on.
func TestRefuse(t *testing.T) {
	cmd, l, _, _ := listen(t, "execve")
	r, err := l.Receive()
	if err != nil {
		t.Fatal(err)
	}
	l.Refuse(r)
	wantStatus(t, cmd, int(unix.EPERM))
}

// A program that is held when it begins has its own command line already.
func TestBegun(t *testing.T) {
	cmd, l, _, _ := listen(t, "begun")
	for _, want := range []string{"sh\x00-c\x00", "/bin/true\x00"} {
		r, err := l.Receive()
		if err != nil {
			t.Fatal(err)
		}
		if line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", r.TID)); !strings.HasPrefix(string(line), want) {
			t.Errorf("held is %q, want %q (%v)", line, want, err)
		}
		l.Continue(r)
	}
	wantStatus(t, cmd, 7)
}

// catches reports whether a process has a handler for a signal.
func catches(t *testing.T, pid int, sig unix.Signal) bool {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\nSigCgt:\t")
	var caught uint64
	if _, err := fmt.Sscanf(rest, "%x", &caught); err != nil {
		t.Fatal(err)
	}
	return caught&(1<<(sig-1)) != 0
}

// A caller that is killed while it waits leaves a request that no process answers.
func TestCallerKilled(t *testing.T) {
	cmd, l, fd, held := listen(t, "execve")
	r, err := l.Receive()
	if err != nil || !l.Valid(r) {
		t.Fatalf("%+v, %v", r, err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if l.Valid(r) {
		t.Error("it is valid without a caller")
	}
	if err := l.ReplaceDescriptor(r, 2, fd); !errors.Is(err, unix.ENOENT) {
		t.Errorf("replace the stderr of nobody: %v", err)
	}
	open(t, fd, held, 0)
	l.Continue(r)
	if _, err := l.Receive(); err != io.EOF {
		t.Errorf("with nobody left: %v", err)
	}
}

// The texts of a caller may be anything, and be anywhere.
func TestMemory(t *testing.T) {
	long := append([]byte(strings.Repeat("x", 5*pageSize)), 0)
	got, err := stringAt(os.Getpid(), uint64(uintptr(unsafe.Pointer(&long[0]))))
	if err != nil || len(got) < BytesMost || len(got) >= len(long) {
		t.Errorf("%d bytes of a long string (%v)", len(got), err)
	}
	word := []byte("word\x00")
	pointers := []uintptr{uintptr(unsafe.Pointer(&word[0])), uintptr(unsafe.Pointer(&word[0])), 0}
	all, err := stringsAt(os.Getpid(), uint64(uintptr(unsafe.Pointer(&pointers[0]))), BytesMost)
	if err != nil || strings.Join(all, " ") != "word word" {
		t.Errorf("%q, %v", all, err)
	}
	for _, nowhere := range []uint64{0, 8, 1 << 63, 0xfffffffffffffff0} {
		if s, err := stringAt(os.Getpid(), nowhere); err == nil {
			t.Errorf("there is %q at %x", s, nowhere)
		}
	}
	if all, err := stringsAt(os.Getpid(), 0, BytesMost); len(all) > 0 || err != nil {
		t.Errorf("%q without arguments (%v)", all, err)
	}
}
