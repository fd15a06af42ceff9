// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
)

// TestReconnectStorm runs alone, since it counts this process's descriptors: it is the client here.
func TestReconnectStorm(t *testing.T) {
	w := newWorld(t)
	w.reconnect()
	early := w.descriptors()
	rounds := 10
	if escape.Full() {
		rounds = 500
	}
	for range rounds {
		w.reconnect()
	}
	w.clean()
	if final := w.descriptors(); final != early {
		t.Errorf("after one round %d descriptors, after %d %d", early, rounds, final)
	}
}

func (w *world) descriptors() int {
	w.T.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		w.T.Fatal(err)
	}
	return len(fds)
}

// reconnect starts a server, talks to it, closes its stdin and waits for it.
func (w *world) reconnect() {
	w.T.Helper()
	b := w.NewEcho(w.Dir, w.mcpscope("run", "--name", "storm", "--", binaries.Zoo, "plain"))
	if !b.Lives() {
		w.T.Fatal("the server does not answer")
	}
	b.In.Close()
	if err := b.Cmd.Wait(); err != nil {
		w.T.Fatal(err)
	}
	b.Out.Close()
}

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
			if n := m.UntilDead(escape.Patience); n > 0 {
				t.Errorf("%d members left:\n\t%s", n, strings.Join(m.Survivors(), "\n\t"))
			}
			escape.WantNoServers(t, rootsSlice(w.Site), "*", escape.Patience)
			w.clean()
		})
	}
}
