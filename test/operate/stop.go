// SPDX-License-Identifier: Apache-2.0

package operate

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/test/escape"
)

// Stop ends what is named, and nothing else, before it returns.
func Stop(t *testing.T, s Subject) {
	on(t, s, func(t *testing.T, g *ground) {
		spared, stubborn := g.plain(), g.start([]string{"--term-grace", "infinity"}, g.Programs.Zoo, "ignore-both")
		if got, want := g.well("stop", stubborn.id, "--grace", "200ms"), fmt.Sprintf("stopped %s (%s)\n", g.name, stubborn.id); got != want {
			t.Errorf("stop said %q, want %q", got, want)
		}
		if left := stubborn.members.Running(); len(left) > 0 {
			t.Errorf("stop returned before they were dead: %q", left)
		}
		spared.lives()
		third := g.plain()
		g.well("stop", g.name) // means all of them
		for _, s := range []*server{spared, third} {
			if left := s.members.Running(); len(left) > 0 {
				t.Errorf("stop by name left %q", left)
			}
		}
	})
}

// Stranger: a server is for its own user and root. other makes a command of another user's.
func Stranger(t *testing.T, s Subject, other func(...string) *exec.Cmd) {
	on(t, s, func(t *testing.T, g *ground) {
		server := g.plain()
		for _, command := range []string{"stop", "inspect", "freeze"} {
			for _, arg := range []string{server.id, g.name} {
				o, err := escape.Finish(g.Unique("operator"), other(g.Program, command, arg))
				if err != nil || o.Status.ExitStatus() != 1 || !strings.Contains(o.Stderr, "is a server of user") || o.Stdout != "" {
					t.Errorf("%s %s: %v, %v, %q; stderr: %s", command, arg, o.Status, err, o.Stdout, o.Stderr)
				}
			}
		}
		o, err := escape.Finish(g.Unique("operator"), other(g.Program, "ls"))
		if err != nil || o.Status != 0 || strings.Contains(o.Stdout, server.id) {
			t.Errorf("ls: %v, %v, %q; stderr: %s", o.Status, err, o.Stdout, o.Stderr)
		}
		server.lives()
	})
}
