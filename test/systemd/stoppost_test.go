// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"testing"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
)

// sweepAfter is the line that a unit needs to have no orphans, whatever killed them all.
func sweepAfter(file string) string {
	return "ExecStopPost=-/bin/sh -c '" + mcpscope + " sweep >" + file + "'"
}

// A restart stops no scope that is bound to the unit, and nobody guards it: what the unit
// does itself after each stop ends the old server. The new one lives.
func TestRestartWithASweepEndsOrphans(t *testing.T) {
	host.Both(t, func(t *testing.T, u host.User) {
		m := escape.NewMembers(t)
		swept := sharedFile(t, u)
		unit := startClientUnit(t, u, host.Service{User: u, Properties: []string{sweepAfter(swept)}},
			zoo("orphan", m, "ignore-both"), plain("orphan", programs.Zoo, "plain"))
		old := awaitServer(t, unit.first.attach(t), m, u.Slice())
		old.unguard()
		if err := unit.Restart(); err != nil {
			t.Fatal(err)
		}
		next := unit.next.attach(t)
		old.wantGone("restarted")
		_, id := m.Main()
		wantText(t, swept, "ended orphan ("+id+")\n")
		if !next.Lives("new") {
			t.Errorf("the new server does not answer: %q; stderr: %s", next.Lines(), escape.Contents(next.Stderr))
		}
		if err := unit.Stop(); err != nil {
			t.Fatal(err)
		}
		if !next.Server.Ended(patience) {
			t.Errorf("the new launcher lives: %s", escape.Describe(next.Server.PID))
		}
		escape.WantNoServers(t, u.Slice(), "orphan", patience)
	})
}

// The scopes of the other manager are bound to nothing, so there only the sweep is left.
func TestStopWithASweepEndsOrphansOfTheOtherManager(t *testing.T) {
	m := escape.NewMembers(t)
	swept := sharedFile(t, host.Tester)
	unit := startClientUnit(t, host.Tester, host.Service{User: host.Root, Properties: []string{"User=tester", sweepAfter(swept)}},
		zoo("orphan", m, "ignore-both"), nil)
	c := awaitServer(t, unit.first.attach(t), m, host.Tester.Slice())
	c.unguard()
	if err := unit.Stop(); err != nil {
		t.Fatal(err)
	}
	if left := m.Running(); len(left) > 0 {
		t.Errorf("the sweep returned before they were dead: %q", left)
	}
	c.wantGone("stopped")
	_, id := m.Main()
	wantText(t, swept, "ended orphan ("+id+")\n")
}
