// SPDX-License-Identifier: Apache-2.0

//go:build linux

package leaks

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

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
	datagrams, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer datagrams.Close()
	if !self.listens() {
		t.Error("a socket that anybody can send to is not seen")
	}
}

// leave starts a shell, in a process group of its own that is killed with the test. It is ready when the
// script has written to descriptor 3.
func leave(t *testing.T, in, out *os.File, script string) (pid int) {
	t.Helper()
	ready, theirs := bed.Pipe(t)
	cmd := exec.Command("sh", "-c", script)
	cmd.Stdin, cmd.Stdout, cmd.ExtraFiles, cmd.SysProcAttr = in, out, []*os.File{theirs},
		&unix.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL) // not reaped yet, so it is the one
		_ = cmd.Wait()                                // killed
	})
	theirs.Close()
	if _, err := ready.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid
}

// What else has the same stdin is ended only if it was below the leak: another one that was left with it may be a daemon.
// A process whose stdout somebody reads is no leak.
func TestStopSparesOthersOfItsStdin(t *testing.T) {
	in, held := bed.Pipe(t)
	lost, out := bed.Pipe(t)
	const script = "(sleep 1004 3>&- & echo >&3; exec 3>&-; wait); :"
	leak, daemon := leave(t, in, out, script), leave(t, in, out, script)
	if err := errors.Join(in.Close(), held.Close(), out.Close()); err != nil {
		t.Fatal(err)
	}
	// look sees the process as if it had been re-parented to its parent, which is this one
	look := func() *Leak {
		all, below, err := everybody()
		if err != nil {
			t.Fatal(err)
		}
		s := Search{UID: os.Getuid(), Inside: func(int) bool { return false },
			Known: func([]string) *Known { return nil }}
		return s.look(all[leak], below)
	}
	if l := look(); l != nil {
		t.Errorf("its stdout is open: %+v", l)
		l.Close()
	}
	lost.Close()
	l := look()
	if l == nil {
		t.Fatal("no leak")
	}
	defer l.Close()
	if err := l.Stop(0); err != nil {
		t.Error(err)
	}
	if st, err := proc.ReadStat(leak); err == nil && st.State != 'Z' {
		t.Errorf("the leak is left: %+v", st)
	}
	if st, err := proc.ReadStat(daemon); err != nil || st.State == 'Z' {
		t.Errorf("another process with its stdin was ended: %c (%v)", st.State, err)
	}
}
