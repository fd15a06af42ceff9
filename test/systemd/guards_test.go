// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"testing"

	"github.com/mcpscope/mcpscope/test/escape"
)

// A contained server is one of the zoo's, with its client and who guards it.
type contained struct {
	t          *testing.T
	client     *escape.Client
	members    *escape.Members
	scope      string
	supervisor *escape.Process
}

// zoo is the command line of a server in a mode.
func zoo(name string, m *escape.Members, mode string) []string {
	return plain(name, programs.Zoo, "--register", m.Address, mode)
}

// awaitServer waits until the server of a client is up, with its scope in the slice.
func awaitServer(t *testing.T, client *escape.Client, m *escape.Members, slice string) *contained {
	t.Helper()
	c := &contained{t: t, client: client, members: m}
	if err := m.UntilReady(patience); err != nil {
		t.Fatalf("%v; client: %q; stderr: %s", err, client.Lines(), escape.Contents(client.Stderr))
	}
	_, id := m.Main()
	var err error
	if c.scope, c.supervisor, err = escape.FindServer(slice, id); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.supervisor.Close)
	return c
}

// unguard kills launcher and supervisor at a time: each would act on the other's death.
func (c *contained) unguard() {
	c.t.Helper()
	if err := escape.KillGuards(c.client.Server, c.supervisor); err != nil {
		c.t.Fatal(err)
	}
	if len(c.members.Running()) == 0 {
		c.t.Error("nobody lives without guards: then this tests nothing")
	}
}

// wantGone: no member, no guard, no scope.
func (c *contained) wantGone(why string) {
	c.t.Helper()
	if n := c.members.UntilDead(patience); n > 0 {
		c.t.Errorf("%s: %d members left: %q", why, n, c.members.Survivors())
	}
	for _, p := range []*escape.Process{c.client.Server, c.supervisor} {
		if !p.Ended(patience) {
			c.t.Errorf("%s: a guard lives: %s", why, escape.Describe(p.PID))
		}
	}
	gone(c.t, c.scope)
}
