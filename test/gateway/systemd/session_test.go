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
	"github.com/mcpscope/mcpscope/test/pace"
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

// What is kept of a server in a session stays in that, below its limits, and ends with it.
func TestKeptInASession(t *testing.T) {
	host.Both(t, func(t *testing.T, u host.User) {
		s := serve(t, u, "--session --keep 'kept-dae*' --eof-grace 100ms --term-grace 100ms")
		path, err := bed.ProcessPath(s.PID)
		if err != nil {
			t.Fatal(err)
		}
		session := filepath.Dir(path)
		s.Groups = filepath.Join("/sys/fs/cgroup", session)
		one := s.server("one", "--target kept-daemon daemons")
		s.Tell("close one")
		if !one.AwaitLiving(3, escape.Patience) {
			t.Errorf("want the daemon, its window, and the detached program:\n\t%s", strings.Join(one.Survivors(), "\n\t"))
		}
		for _, role := range []string{"/daemon", "/window", "/detached"} {
			where := ""
			isKept := pace.Eventually(escape.Patience, func() bool {
				where, _ = bed.ProcessPath(one.Find(role)) // "", if it has ended
				return strings.HasPrefix(filepath.Base(where), "mcpscope-kept-")
			})
			if !isKept || filepath.Dir(where) != session {
				t.Errorf("the %s is in %q, and the session is %s", role, where, session)
			}
		}
		s.stop()
		one.Gone(t)
		if err := escape.AwaitRemoval(s.Groups, escape.Patience); err != nil {
			t.Errorf("%v: %s", err, escape.Tree(s.Groups))
		}
	})
}
