// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"bytes"
	"errors"
	"fmt"
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
	*escape.Talk
	t *testing.T
}

// start starts a server of that name, a shell script, with short graces.
func (b backend) start(t *testing.T, name string, options []string, script string) *server {
	t.Helper()
	args := append([]string{"run", "--name", name, "--backend", b.name, "--eof-grace", "300ms", "--term-grace", "300ms"}, options...)
	cmd := b.command(t, append(args, "--", "sh", "-c", script, "sh", "secret-argument")...)
	cmd.Env = append(cmd.Environ(), "SECRET=secret-variable")
	start := cmd.Start
	if b.name == "delegated" {
		dir := delegate(t)
		start = func() error { return escape.StartIn(dir, cmd) }
	}
	s := &server{escape.StartTalk(t, cmd, start), t}
	s.Hear("ready")
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

// end closes stdin, and returns how the server ended.
func (s *server) end() syscall.WaitStatus {
	s.t.Helper()
	_ = s.Stdin.Close() // whether it reads or not
	_ = s.Cmd.Wait()    // how, is returned
	return s.Cmd.ProcessState.Sys().(syscall.WaitStatus)
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
