// SPDX-License-Identifier: Apache-2.0

package operate

import "testing"

// Freeze: a frozen server can be thawed, and stopped.
func Freeze(t *testing.T, s Subject) {
	on(t, s, func(t *testing.T, g *ground) {
		server := g.plain()
		for _, step := range []struct{ do, state string }{{"freeze", "frozen"}, {"thaw", "running"}, {"freeze", "frozen"}} {
			g.well(step.do, server.id)
			if got := g.list("inspect", server.id); len(got) != 1 || got[0].State != step.state {
				t.Errorf("after %s: %+v", step.do, got)
			}
			if step.do == "thaw" {
				server.lives()
			}
		}
		g.well("stop", server.id)
		if left := server.members.Running(); len(left) > 0 {
			t.Errorf("stop of a frozen server left %q", left)
		}
	})
}
