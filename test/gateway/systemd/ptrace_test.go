package systemd

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/test/bed"
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

// What a user's watcher may not look at is contained before it runs, all the same, and judged then: a tool is
// put back, and a server ends when its stdin is closed, or with the gateway.
func TestGatewayUnderPtraceScope(t *testing.T) {
	bed.Require(t, ptraceScope)
	s := serve(t, host.Tester, "--eof-grace=200ms --term-grace=200ms")
	one, first := s.anywhere("one", "double-fork")
	two, second := s.anywhere("two", "ignore-both")
	shell := s.Tool("shell x")
	if path, err := bed.ProcessPath(shell.PID); err != nil || path != s.Gateway.Group {
		t.Errorf("what a tool has left is in %s, the gateway in %s (%v)", path, s.Gateway.Group, err)
	}
	s.Tell("close one")
	s.gone("one", one, first)
	s.Tell("ask two")
	if got := s.Expect("answer two"); got != "ping" {
		t.Errorf("the other server says %q", got)
	}
	if shell.Ended(0) {
		t.Error("what a tool has left is dead")
	}
	if err := s.Crash(); err != nil {
		t.Error(err)
	}
	s.gone("two", two, second)
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
