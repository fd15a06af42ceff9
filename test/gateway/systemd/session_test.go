// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/gateway"
	"github.com/mcpscope/mcpscope/test/host"
)

// In a login's session only the user manager may move a process to its groups. A server that is
// recognized when it has started others is captured with them all the same.
func TestLateInASession(t *testing.T) {
	dir := host.Directory(t, host.Tester)
	explain := filepath.Join(dir, "explain")
	session := host.Current(t).Login(t, host.Tester)
	cmd := session.Command(host.Shared+"/mcpscope", "gateway", "--backend", "systemd-user", "--explain", explain, "--term-grace=200ms", "--", host.Shared+"/like")
	g := gateway.Start(t, cmd, cmd.Start)
	g.Explain = explain
	g.Groups = host.Tester.Slice()
	s := g.Unnamed(dir, programs, "a", "double-fork")
	for _, pid := range s.PIDs() {
		if path, err := bed.ProcessPath(pid); err != nil || !strings.HasSuffix(path, ".scope/payload") {
			t.Errorf("%s is in %s (%v)", escape.Describe(pid), path, err)
		}
	}
	g.Own.Signal(unix.SIGKILL)
	s.Gone(t)
	if t.Failed() {
		text, _ := os.ReadFile(explain) // none, if it never came so far
		t.Logf("explained:\n%s", text)
	}
}
