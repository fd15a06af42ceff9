// SPDX-License-Identifier: Apache-2.0

//go:build linux

package leaks

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/proc"
	"github.com/mcpscope/mcpscope/test/bed"
)

// A process that somebody can reach by an address is a daemon; a connection alone makes none.
func TestListens(t *testing.T) {
	self := &Leak{PID: os.Getpid()}
	if self.listens() {
		t.Error("before there is a listener")
	}
	for network, address := range map[string]string{"tcp4": "127.0.0.1:0", "tcp6": "[::1]:0", "unix": filepath.Join(t.TempDir(), "socket")} {
		l, err := net.Listen(network, address)
		if err != nil {
			t.Logf("no %s here: %v", network, err)
			continue
		}
		if !self.listens() {
			t.Errorf("a listener (%s) is not seen", network)
		}
		c, err := net.Dial(network, l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		if self.listens() {
			t.Errorf("a connection (%s) is taken for a listener", network)
		}
		c.Close()
	}
}

// leave starts a command, in a process group of its own that is killed with the test.
func leave(t *testing.T, in, out *os.File, argv ...string) (pid int) {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdin, cmd.SysProcAttr = in, &unix.SysProcAttr{Setpgid: true}
	if out != nil { // otherwise /dev/null
		cmd.Stdout = out
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL) // not reaped yet, so it is the one
		_ = cmd.Wait()                                // killed
	})
	return cmd.Process.Pid
}

// awaitBelow waits until programs of these names run below a process.
func awaitBelow(t *testing.T, pid int, names ...string) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; {
		_, below, err := everybody()
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, d := range descendants(pid, below) {
			if comm, err := proc.Comm(d); err == nil {
				all = append(all, comm)
			}
		}
		if !slices.ContainsFunc(names, func(n string) bool { return !slices.Contains(all, n) }) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%q run, want %q", all, names)
		}
	}
}

// judge looks at one process as if it had been re-parented to its parent, which is this one.
func judge(t *testing.T, pid int, known ...string) *Leak {
	t.Helper()
	all, below, err := everybody()
	if err != nil {
		t.Fatal(err)
	}
	s := Search{
		UID: os.Getuid(), Inside: func(int) bool { return false },
		Known: func(argv []string) *Known {
			if !slices.Contains(known, strings.Join(argv, " ")) {
				return nil
			}
			return &Known{"server", "file"}
		},
	}
	l := s.look(all[pid], below)
	if l != nil {
		t.Cleanup(l.Close)
	}
	return l
}

// A client whose own stdin is closed, as of one that was started by ssh, has configured servers below it. Behind a
// package runner such a server is a leak: it has the same stdin.
func TestKnownBelow(t *testing.T) {
	for _, tc := range []struct {
		what, script, known string
		below               []string
		leak                bool
	}{
		{"a client", "sleep 1001 | cat; :", "cat", []string{"sleep", "cat"}, false},
		{"a package runner", "sleep 1002; :", "sleep 1002", []string{"sleep"}, true},
	} {
		in, held := bed.Pipe(t)
		pid := leave(t, in, nil, "sh", "-c", tc.script)
		if err := errors.Join(in.Close(), held.Close()); err != nil {
			t.Fatal(err)
		}
		awaitBelow(t, pid, tc.below...)
		if l := judge(t, pid, tc.known); (l != nil) != tc.leak {
			t.Errorf("%s: %+v", tc.what, l)
		}
	}
}

// A configured server is no leak while somebody can read its answers.
func TestKnownIsRead(t *testing.T) {
	in, held := bed.Pipe(t)
	read, out := bed.Pipe(t)
	pid := leave(t, in, out, "sleep", "1003")
	if err := errors.Join(in.Close(), held.Close(), out.Close()); err != nil {
		t.Fatal(err)
	}
	if l := judge(t, pid, "sleep 1003"); l != nil {
		t.Errorf("its stdout is open: %+v", l)
	}
	read.Close()
	if l := judge(t, pid, "sleep 1003"); l == nil {
		t.Error("nobody can read its stdout any more, and it is no leak")
	}
}

// What else has the same stdin is ended only if it was below the leak: another one that was left with it may be a daemon.
func TestStopSparesOthersOfItsStdin(t *testing.T) {
	in, held := bed.Pipe(t)
	lost, out := bed.Pipe(t)
	leak := leave(t, in, out, "sh", "-c", "(sleep 1004 & wait); :")
	daemon := leave(t, in, out, "sleep", "1005")
	if err := errors.Join(in.Close(), held.Close(), lost.Close(), out.Close()); err != nil {
		t.Fatal(err)
	}
	awaitBelow(t, leak, "sleep")
	l := judge(t, leak)
	if l == nil {
		t.Fatal("no leak")
	}
	if err := l.Stop(0); err != nil {
		t.Error(err)
	}
	if st, err := proc.ReadStat(daemon); err != nil || st.State == 'Z' {
		t.Errorf("another process with its stdin was ended: %c (%v)", st.State, err)
	}
}

// So can one that waits for datagrams, and not one that sends them to a single address or has no address.
func TestListensForDatagrams(t *testing.T) {
	self := &Leak{PID: os.Getpid()}
	path := filepath.Join(t.TempDir(), "socket")
	for network, address := range map[string]string{"udp4": "127.0.0.1:0", "udp6": "[::1]:0", "unixgram": path} {
		c, err := net.ListenPacket(network, address)
		if err != nil {
			t.Logf("no %s here: %v", network, err)
			continue
		}
		if !self.listens() {
			t.Errorf("a socket that anybody can send to (%s) is not seen", network)
		}
		c.Close()
	}
	c, err := net.Dial("udp4", "127.0.0.1:9")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	nameless, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(nameless)
	if self.listens() {
		t.Error("a socket that sends only is taken for a listener")
	}
}
