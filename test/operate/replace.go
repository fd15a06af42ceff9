// SPDX-License-Identifier: Apache-2.0

package operate

import (
	"testing"

	"github.com/mcpscope/mcpscope/test/escape"
)

// Replace: a client that connects again and again without closing has one server.
func Replace(t *testing.T, s Subject) {
	on(t, s, func(t *testing.T, g *ground) {
		other := g.plain("--replace") // of another client
		members, done := escape.NewMembers(t), escape.NewMembers(t)
		// One that is retired at once may end before it can say that it was born. (wait -n forgets
		// whoever ends beside another.)
		const script = `exec 3<&0; for i in 1 2 3; do "${@:3}" <&3 & all+=($!); done
			live=3; while ((live > 1)); do live=0; for p in "${all[@]}"; do kill -0 $p 2>/dev/null && ((live++)); done; done
			"$1" --register "$2" plain <&3; wait`
		line := append([]string{"bash", "-c", script, "bash", g.Programs.Zoo, done.Address},
			g.line(members, []string{"--replace"}, g.Programs.Zoo, "plain")...)
		c := g.client(line)
		if !done.AwaitBorn(1, escape.Patience) {
			t.Fatalf("two of three were not retired: %q live; stderr: %s", members.Running(), escape.Contents(c.Stderr))
		}
		if !members.AwaitLiving(1, escape.Patience) {
			t.Errorf("not one of one name and client lives, but %q", members.Running())
		}
		other.lives()
		c.Tell("close")
	})
}

// MaxCopies: a client that connects again and again has so many servers, the newest.
func MaxCopies(t *testing.T, s Subject) {
	on(t, s, func(t *testing.T, g *ground) {
		other := g.plain("--max-copies", "1") // of another client
		members, done := escape.NewMembers(t), escape.NewMembers(t)
		const script = `exec 3<&0; for i in 1 2 3 4; do "${@:3}" <&3 & all+=($!); done
			live=4; while ((live > 2)); do live=0; for p in "${all[@]}"; do kill -0 $p 2>/dev/null && ((live++)); done; done
			"$1" --register "$2" plain <&3; wait`
		line := append([]string{"bash", "-c", script, "bash", g.Programs.Zoo, done.Address},
			g.line(members, []string{"--max-copies", "2"}, g.Programs.Zoo, "plain")...)
		c := g.client(line)
		if !done.AwaitBorn(1, escape.Patience) {
			t.Fatalf("two of four were not retired: %q live; stderr: %s", members.Running(), escape.Contents(c.Stderr))
		}
		if !members.AwaitLiving(2, escape.Patience) {
			t.Errorf("not two of one name and client live, but %q", members.Running())
		}
		other.lives()
		c.Tell("close")
	})
}
