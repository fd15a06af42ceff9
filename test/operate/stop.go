// SPDX-License-Identifier: Apache-2.0

package operate

import (
	"fmt"
	"testing"
)

// Stop ends what is named, and nothing else, before it returns.
func Stop(t *testing.T, s Subject) {
	on(t, s, func(t *testing.T, g *ground) {
		spared := g.plain()
		stubborn := g.start([]string{"--term-grace", "infinity"}, g.Programs.Zoo, "ignore-both")
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
