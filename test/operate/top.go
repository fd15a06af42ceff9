package operate

import (
	"testing"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/transparent"
)

// Top shows a server on a terminal, and ends it when its keys are pressed. All else of top does
// not depend on where groups come from.
func Top(t *testing.T, s Subject) {
	on(t, s, func(t *testing.T, g *ground) {
		spared, victim := g.plain(), g.plain()
		cmd := g.Command(g.Program, "top", "--interval", "100ms")
		cmd.Env = append(cmd.Environ(), "TERM=xterm")
		group := g.Unique("operator")
		term := transparent.StartTerminal(t, cmd, func() error { return escape.StartIn(group, cmd) })
		term.Resize(40, 120)
		term.Type("/" + victim.id + "\r")
		term.Expect("1 with", victim.id)
		term.Type("s")
		term.Expect("Stop " + g.name + " (" + victim.id)
		term.Type("y")
		term.Expect("stopped " + g.name + " (" + victim.id)
		if left := victim.members.Running(); len(left) > 0 {
			t.Errorf("they run: %q", left)
		}
		spared.lives()
		term.Type("q")
		if err := cmd.Wait(); err != nil {
			t.Errorf("q: %v", err)
		}
	})
}
