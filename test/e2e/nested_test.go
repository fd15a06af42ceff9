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
	run := []string{binaries.mcpscope, "run", "--eof-grace", soon, "--term-grace", soon, "--"}
	for what, end := range map[string]func(*escape.Client){
		"stdin closed":   func(c *escape.Client) { c.Tell("close") },
		"SIGTERM":        func(c *escape.Client) { c.Tell("signal %d", unix.SIGTERM) },
		"outer SIGKILL":  func(c *escape.Client) { c.Server.Signal(unix.SIGKILL) },
		"client SIGKILL": func(c *escape.Client) { c.Own.Signal(unix.SIGKILL) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w, m := newWorld(t), escape.NewMembers(t)
			line := slices.Concat(run, run, []string{binaries.Zoo, "--register", m.Address, "ignore-both"})
			c := w.NewClient(w.Unique("client"), []string{"--group"}, line)
			if err := m.UntilReady(escape.Patience); err != nil {
				t.Fatalf("%v; stderr: %s", err, escape.Contents(c.Stderr))
			}
			if n := len(w.groups()); n != 2 {
				t.Errorf("%d groups, want 2", n)
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
