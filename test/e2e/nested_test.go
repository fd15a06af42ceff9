// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
)

// A server that starts its own servers with mcpscope: the inner groups are beside
// the outer one and end with it.
func TestNestedRun(t *testing.T) {
	for _, backend := range []string{"auto", "tree"} {
		t.Run(backend, func(t *testing.T) { nestedRun(t, backend) })
	}
}

func nestedRun(t *testing.T, backend string) {
	run := []string{binaries.mcpscope, "run", "--backend", backend, "--eof-grace", soon, "--term-grace", soon, "--"}
	groups := map[string]int{"auto": 2, "tree": 0}
	for what, end := range map[string]func(*escape.Client){
		"stdin closed":   func(c *escape.Client) { c.Tell("close") },
		"SIGTERM":        func(c *escape.Client) { c.Tell("signal %d", unix.SIGTERM) },
		"outer SIGKILL":  func(c *escape.Client) { c.Server.Signal(unix.SIGKILL) },
		"client SIGKILL": func(c *escape.Client) { c.Own.Signal(unix.SIGKILL) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			m := escape.NewMembers(t)
			line := slices.Concat(run, []string{binaries.Zoo, "--register", m.Address, "ignore-both"})
			if what == "outer SIGKILL" { // without a client's stdin the inner server does not notice it by itself
				line = slices.Concat([]string{"sh", "-c", `exec "$@" </dev/null`, "sh"}, line)
			}
			line = slices.Concat(run, line)
			c := w.NewClient(w.Unique("client"), []string{"--group"}, line)
			if err := m.UntilReady(escape.Patience); err != nil {
				t.Fatalf("%v; stderr: %s", err, escape.Contents(c.Stderr))
			}
			if n := len(w.groups()); n != groups[backend] {
				t.Errorf("%d groups, want %d", n, groups[backend])
			}
			end(c)
			if !c.Server.Ended(escape.Patience) {
				t.Fatal("the outer launcher did not return")
			}
			if left := m.Running(); len(left) > 0 && what != "outer SIGKILL" {
				t.Errorf("the outer launcher returned before they were dead: %q", left)
			}
			m.WantDead(t)
			escape.WantNoServers(t, rootsSlice(w.Site), "*", escape.Patience)
			w.clean()
		})
	}
}
