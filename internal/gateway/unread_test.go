// SPDX-License-Identifier: Apache-2.0

//go:build linux

package gateway

import (
	"bytes"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/gateway/mcp"
)

// The input of a candidate is copied, and stays unread.
func TestUnread(t *testing.T) {
	for name, open := range map[string]func() ([2]int, error){
		"pipe": func() (fds [2]int, err error) { return fds, unix.Pipe2(fds[:], unix.O_CLOEXEC) },
		"socket": func() ([2]int, error) {
			return unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			fds, err := open()
			if err != nil {
				t.Fatal(err)
			}
			stdin, ours := os.NewFile(uintptr(fds[0]), "stdin"), os.NewFile(uintptr(fds[1]), "ours")
			t.Cleanup(func() { _ = ours.Close() })
			cmd := exec.Command("sleep", "infinity")
			cmd.Stdin = stdin
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				_ = cmd.Process.Kill() // it sleeps
				_ = cmd.Wait()         // killed
			})
			_ = stdin.Close() // the child has it
			pidfd, err := unix.PidfdOpen(cmd.Process.Pid, 0)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = unix.Close(pidfd) })
			c := &candidate{pid: cmd.Process.Pid, pidfd: pidfd, stdin: fileAt(cmd.Process.Pid, 0)}
			if got := c.unread(); len(got) > 0 {
				t.Errorf("before anything is written: %q", got)
			}
			want := bytes.Repeat([]byte("x"), mcp.LineMost/2)
			if _, err := ours.Write(want); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if got := c.unread(); !bytes.Equal(got, want) {
					t.Errorf("%d bytes, want %d", len(got), len(want))
				}
			}
			c.stdin.Ino++
			if got := c.unread(); len(got) > 0 {
				t.Errorf("of another file: %d bytes", len(got))
			}
		})
	}
}
