// SPDX-License-Identifier: Apache-2.0

package operate

import (
	"testing"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/tmux"
)

// Top shows a server on a terminal, and ends it when its keys are pressed. All else of top does
// not depend on where groups come from.
func Top(t *testing.T, s Subject) {
	on(t, s, func(t *testing.T, g *ground) {
		spared, victim := g.plain(), g.plain()
		cmd := g.Command(g.Program, "top", "--interval", "100ms")
		group := g.Unique("operator")
		screen := tmux.Start(t, 120, 40, cmd, func() error { return escape.StartIn(group, cmd) })
		screen.Shows("servers", "NAME")
		screen.Type("/" + victim.id)
		screen.Press("Enter")
		screen.Shows("1 with", victim.id)
		screen.Type("s")
		screen.Shows("Stop " + g.name + " (" + victim.id)
		screen.Type("y")
		screen.Shows("stopped " + g.name + " (" + victim.id)
		if left := victim.members.Running(); len(left) > 0 {
			t.Errorf("they run: %q", left)
		}
		spared.lives()
		screen.Type("q")
		if status := screen.Status(); status != "0" {
			t.Errorf("q: %s", status)
		}
	})
}
