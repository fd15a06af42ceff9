// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
)

// A server is one `mcpscope run`, whose server has said "ready".
type server struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	out    *bufio.Reader
	stderr *os.File // an orphan would hold a pipe open
}

// start starts a server of that name, a shell script, with short graces.
func (b backend) start(t *testing.T, name string, options []string, script string) *server {
	t.Helper()
	args := append([]string{"run", "--name", name, "--backend", b.name, "--eof-grace", "300ms", "--term-grace", "300ms"}, options...)
	s := &server{t: t, cmd: b.command(t, append(args, "--", "sh", "-c", script, "sh", "secret-argument")...)}
	s.cmd.Env = append(s.cmd.Environ(), "SECRET=secret-variable")
	var err error
	if s.stdin, err = s.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if s.stderr, err = escape.OpenMemory("stderr"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.stderr.Close() })
	s.cmd.Stderr = s.stderr
	start := s.cmd.Start
	if b.name == "delegated" {
		dir := delegate(t)
		start = func() error { return escape.StartIn(dir, s.cmd) }
	}
	if err := start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill() // most tests have ended it
		_ = s.cmd.Wait()
	})
	s.out = bufio.NewReader(out)
	s.hear("ready")
	return s
}

var delegations atomic.Int32

// delegate makes a group that is marked as systemd marks what it delegates.
func delegate(t *testing.T) string {
	t.Helper()
	dir := fmt.Sprint("/sys/fs/cgroup/delegated-", delegations.Add(1))
	t.Cleanup(func() {
		if err := bed.Destroy(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setxattr(dir, "user.delegate", []byte("1"), 0); err != nil {
		t.Fatal(err)
	}
	return dir
}

// hear waits for the server's next line.
func (s *server) hear(want string) {
	s.t.Helper()
	if line, err := s.out.ReadString('\n'); line != want+"\n" {
		s.t.Fatalf("the server says %q (%v), want %q; stderr: %s", line, err, want, s.said())
	}
}

// said is what is on stderr.
func (s *server) said() string { return escape.Contents(s.stderr) }

func (s *server) tell(line string) {
	s.t.Helper()
	if _, err := io.WriteString(s.stdin, line+"\n"); err != nil {
		s.t.Error(err)
	}
}

// end closes stdin, and returns how the server ended.
func (s *server) end() syscall.WaitStatus {
	s.t.Helper()
	_ = s.stdin.Close() // whether it reads or not
	_ = s.cmd.Wait()    // how, is returned
	return s.cmd.ProcessState.Sys().(syscall.WaitStatus)
}

// A result is how a command ended that is not waited for.
type result struct {
	status      int
	out, stderr string
}

func output(t *testing.T, cmd *exec.Cmd) result {
	t.Helper()
	var r result
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	r.status, r.out, r.stderr = cmd.ProcessState.ExitCode(), out.String(), stderr.String()
	return r
}

// succeed runs a command that must.
func (b backend) succeed(t *testing.T, args ...string) string {
	t.Helper()
	r := output(t, b.command(t, args...))
	if r.status != 0 || r.stderr != "" {
		t.Errorf("%q: status %d; stderr: %s", args, r.status, r.stderr)
	}
	return r.out
}

// lines of a text, without the last newline.
func lines(text string) []string { return strings.Split(strings.TrimSuffix(text, "\n"), "\n") }
