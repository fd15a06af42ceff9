// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/gateway"
	"github.com/mcpscope/mcpscope/test/host"
)

// ptraceScope: only root and a process's ancestors may read its memory. Most distributions have it so.
var ptraceScope = bed.Feature{Name: "yama's ptrace_scope=1, as test/vm sets it", Missing: func() error {
	text, err := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope")
	if err == nil && strings.TrimSpace(string(text)) != "1" {
		err = fmt.Errorf("it is %q", text)
	}
	return err
}}

// A user's watcher can't read command lines before a program runs, and no sockets. A server is found as soon as it runs,
// and ends when the gateway does, or its stdin if that is a pipe. A tool is left.
func TestGatewayUnderPtraceScope(t *testing.T) {
	bed.Require(t, ptraceScope)
	s := serve(t, host.Tester, "--eof-grace=200ms --term-grace=200ms")
	s.Groups = "" // in a machine that is emulated the manager may answer too late, and another backend is taken
	one := s.server("one", "double-fork")
	two := s.server("two", "ignore-both")
	shell := s.Tool("shell x")
	s.Uses("sockets")
	three := s.server("three", "double-fork")
	other := s.Tool("shell y")
	for _, left := range []*escape.Process{shell, other} {
		if path, err := bed.ProcessPath(left.PID); err != nil || path != s.Gateway.Group {
			t.Errorf("what a tool has left is in %s, the gateway in %s (%v)", path, s.Gateway.Group, err)
		}
	}
	s.Tell("close one")
	one.Gone(t)
	s.Answers("two")
	s.Answers("three")
	gateway.Lives(t, "what a tool has left", shell)
	gateway.Lives(t, "what a tool has left", other)
	if err := s.Crash(); err != nil {
		t.Error(err)
	}
	two.Gone(t)
	three.Gone(t)
}
