// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"path/filepath"
	"testing"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
)

// A contained server is one of the zoo's, with its client, its members and its guard.
type contained struct {
	t       *testing.T
	client  *escape.Client
	members *escape.Members
	scope   string
	guard   *escape.Process
}

// run is the command line of a server in a scope of the user's manager. Later flags replace these.
func run(u host.User, name string, flags ...string) []string {
	line := []string{mcpscope, "run", "--name", name, "--backend", "auto", "--eof-grace", "300ms", "--term-grace", "300ms"}
	return append(append(line, flags...), "--")
}

// zoo is the command line of a server in a mode that reports its members.
func zoo(u host.User, name string, m *escape.Members, mode string, flags ...string) []string {
	return append(run(u, name, flags...), programs.Zoo, "--register", m.Address, mode)
}

// launch starts a client, and a server whose scope the manager has when launch returns.
func launch(t *testing.T, u host.User, name, mode string, flags ...string) *contained {
	t.Helper()
	m := escape.NewMembers(t)
	client := append([]string{programs.Client, "--group", "--"}, zoo(u, name, m, mode, flags...)...)
	cmd := host.Current(t).Command(u, client...)
	c := awaitServer(t, escape.StartClient(t, cmd, cmd.Start), m, u.Slice())
	c.awaitScope()
	return c
}

// awaitServer waits until the server of a client is up, with its scope's directory in the slice.
func awaitServer(t *testing.T, client *escape.Client, m *escape.Members, slice string) *contained {
	t.Helper()
	t.Cleanup(m.Kill) // of a test that has failed
	c := &contained{t: t, client: client, members: m}
	if err := m.UntilReady(patience); err != nil {
		t.Fatalf("%v; client: %q; stderr: %s", err, client.Lines(), escape.Contents(client.Stderr))
	}
	_, id := m.Main()
	var err error
	if c.scope, c.guard, err = escape.FindServer(slice, id); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.guard.Close)
	return c
}

func (c *contained) unit() string { return filepath.Base(c.scope) }

func (c *contained) awaitScope() {
	c.t.Helper()
	if err := escape.AwaitScope(c.scope, patience); err != nil {
		c.t.Fatal(err)
	}
}

// unguard kills launcher and guard together: each would act on the other's death. The main process dies with its
// launcher, so the server needs another member.
func (c *contained) unguard() {
	c.t.Helper()
	if err := escape.KillTogether(c.guard, c.client.Server); err != nil {
		c.t.Fatal(err)
	}
	if len(c.members.Running()) == 0 {
		c.t.Error("no member outlives launcher and guard: then this tests nothing")
	}
}

func (c *contained) lives() {
	c.t.Helper()
	if !c.client.Lives("still there?") {
		c.t.Errorf("%s does not answer: %q; stderr: %s", c.unit(), c.client.Lines(), escape.Contents(c.client.Stderr))
	}
}

// ends closes stdin of a server in the mode plain, which exits then, and has to be as if there were no scope.
func (c *contained) ends() {
	c.t.Helper()
	c.client.Tell("close")
	if status := c.client.Status(patience); status != "exit 0" {
		c.t.Errorf("it ended with %q; stderr: %s", status, escape.Contents(c.client.Stderr))
	}
	c.wantGone("stdin closed")
}

// wantGone waits until there is no member, no launcher, no guard and no scope.
func (c *contained) wantGone(why string) {
	c.t.Helper()
	if n := c.members.UntilDead(patience); n > 0 {
		c.t.Errorf("%s: %d members left: %q", why, n, c.members.Survivors())
	}
	for _, p := range []*escape.Process{c.client.Server, c.guard} {
		if !p.Ended(patience) {
			c.t.Errorf("%s: launcher or guard lives: %s", why, escape.Describe(p.PID))
		}
	}
	if err := escape.AwaitRemoval(c.scope, patience); err != nil {
		c.t.Errorf("%s: %v", why, err)
	}
}
