// SPDX-License-Identifier: Apache-2.0

package idle

import (
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// A process that another one may wait for is not frozen.
func TestTie(t *testing.T) {
	never := exec.Command("true")
	if err := never.Run(); err != nil {
		t.Fatal(err)
	}
	const tcp = "it has a TCP socket"
	listen := func(network, address string, multipath bool) func() (io.Closer, error) {
		return func() (io.Closer, error) {
			var c net.ListenConfig
			c.SetMultipathTCP(multipath)
			return c.Listen(t.Context(), network, address)
		}
	}
	for name, c := range map[string]struct {
		pid  int
		open func() (io.Closer, error)
		want string
	}{
		"nothing":   {os.Getpid(), func() (io.Closer, error) { return os.Open("/dev/null") }, ""},
		"IPv4":      {os.Getpid(), listen("tcp4", "127.0.0.1:0", false), tcp},
		"IPv6":      {os.Getpid(), listen("tcp6", "[::1]:0", false), tcp},
		"multipath": {os.Getpid(), listen("tcp4", "127.0.0.1:0", true), tcp},
		"UNIX":      {os.Getpid(), listen("unix", t.TempDir()+"/socket", false), ""},
		"UDP":       {os.Getpid(), func() (io.Closer, error) { return net.ListenPacket("udp4", "127.0.0.1:0") }, "it has a UDP socket"},
		"lock":      {os.Getpid(), locked(t, unix.LOCK_EX), "it holds a lock on a file"},
		"shared":    {os.Getpid(), locked(t, unix.LOCK_SH), "it holds a lock on a file"},
		"POSIX":     {os.Getpid(), lockedByRecord(t, unix.F_SETLK, unix.F_WRLCK), "it holds a lock on a file"},
		"OFD":       {os.Getpid(), lockedByRecord(t, unix.F_OFD_SETLK, unix.F_WRLCK), "it holds a lock on a file"},
		"read":      {os.Getpid(), lockedByRecord(t, unix.F_SETLK, unix.F_RDLCK), "it holds a lock on a file"},
		"FUSE":      {os.Getpid(), func() (io.Closer, error) { return os.Open("/dev/fuse") }, "it serves a file system"},
		"VSOCK": {os.Getpid(), func() (io.Closer, error) {
			fd, err := unix.Socket(unix.AF_VSOCK, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				return nil, err
			}
			return os.NewFile(uintptr(fd), "vsock"), nil
		}, "it has a VSOCK socket"},
		"connected": {os.Getpid(), func() (io.Closer, error) {
			l, err := net.Listen("tcp4", "127.0.0.1:0")
			if err != nil {
				return nil, err
			}
			defer l.Close()
			return net.Dial("tcp4", l.Addr().String())
		}, tcp},
		"ended": {never.Process.Pid, func() (io.Closer, error) { return os.Open("/dev/null") }, unexamined},
	} {
		t.Run(name, func(t *testing.T) {
			open, err := c.open()
			if err != nil && slices.Contains([]string{"IPv6", "FUSE", "VSOCK"}, name) {
				t.Skipf("SKIP: there is no %s: %v", name, err)
			}
			if err != nil {
				t.Fatal(err)
			}
			defer open.Close()
			if got := tie(c.pid, nil); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// lockedByRecord opens a file, with a lock on its first byte (fcntl_locking(2)).
func lockedByRecord(t *testing.T, command int, kind int16) func() (io.Closer, error) {
	return func() (io.Closer, error) {
		file, err := os.Create(filepath.Join(t.TempDir(), "locked"))
		if err != nil {
			return nil, err
		}
		lock := unix.Flock_t{Type: kind, Len: 1}
		return file, unix.FcntlFlock(file.Fd(), command, &lock)
	}
}

func locked(t *testing.T, how int) func() (io.Closer, error) {
	return func() (io.Closer, error) {
		f, err := os.Create(t.TempDir() + "/lock")
		if err != nil {
			return nil, err
		}
		return f, unix.Flock(int(f.Fd()), how)
	}
}

// A tracer is not frozen with a process outside of its group.
func TestTraceOthers(t *testing.T) {
	runtime.LockOSThread() // the tracer is a thread
	defer runtime.UnlockOSThread()
	traced := exec.Command("sleep", "1000")
	traced.SysProcAttr = &syscall.SysProcAttr{Ptrace: true, Pdeathsig: syscall.SIGKILL}
	if err := traced.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = traced.Process.Kill()
		_ = traced.Wait()
	}()
	own := os.Getpid()
	other := traced.Process.Pid
	if !traceOthers([]int{own}) {
		t.Error("a traced process was not found")
	}
	if traceOthers([]int{own, other}) || traceOthers([]int{other}) {
		t.Error("a process was found that is a member, or traces none")
	}
}
