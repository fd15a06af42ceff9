// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/gateway"
	"github.com/mcpscope/mcpscope/test/host"
)

// ptraceScope: whoever is neither root nor above a process may not read its memory. Most distributions have it so.
var ptraceScope = bed.Feature{Name: "yama's ptrace_scope=1, as test/vm sets it", Missing: func() error {
	text, err := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope")
	if err == nil && strings.TrimSpace(string(text)) != "1" {
		err = fmt.Errorf("it is %q", text)
	}
	return err
}}

// A user's watcher may look at pipes, and at sockets that the gateway itself made: whether a server is spoken to
// at once or later, it is found, and ends when the gateway does, or its stdin if that is a pipe. A tool is left.
func TestGatewayUnderPtraceScope(t *testing.T) {
	bed.Require(t, ptraceScope)
	s := serve(t, host.Tester, "--eof-grace=200ms --term-grace=200ms")
	one, first := s.anywhere("one", "double-fork")
	two, second := s.anywhere("two", "ignore-both")
	shell := s.Tool("shell x")
	s.Tell("sockets")
	s.Expect("sockets")
	three, third := s.anywhere("three", "double-fork")
	other := s.Tool("shell y")
	for _, left := range []*escape.Process{shell, other} {
		if path, err := bed.ProcessPath(left.PID); err != nil || path != s.Gateway.Group {
			t.Errorf("what a tool has left is in %s, the gateway in %s (%v)", path, s.Gateway.Group, err)
		}
	}
	s.Tell("close one")
	s.gone("one", one, first)
	for _, name := range []string{"two", "three"} {
		s.Tell("ask %s", name)
		if got := s.Expect("answer " + name); got != "ping" {
			t.Errorf("the server %s says %q", name, got)
		}
	}
	if shell.Ended(0) || other.Ended(0) {
		t.Error("what a tool has left is dead")
	}
	if err := s.Crash(); err != nil {
		t.Error(err)
	}
	s.gone("two", two, second)
	s.gone("three", three, third)
}

// anywhere has it start a server, in a group that need not be a scope: in a machine that is emulated the manager
// may answer too late.
func (s *service) anywhere(name, mode string) (*gateway.Server, string) {
	s.t.Helper()
	m := s.Gateway.Server(programs, name, mode)
	path, err := bed.ProcessPath(m.Main.PID)
	if err != nil || !strings.Contains(path, "/mcp-") || filepath.Base(path) != "payload" {
		s.t.Errorf("%s is in %s (%v)", name, path, err)
	}
	return m, filepath.Dir("/sys/fs/cgroup" + path)
}
