// SPDX-License-Identifier: Apache-2.0

package selection

import (
	"testing"

	"github.com/mcpscope/mcpscope/internal/server/fleet"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

func TestIsNear(t *testing.T) {
	for _, c := range []struct {
		typed, word string
		want        bool
	}{
		{"sl", "ls", true}, {"ls", "ls", true}, {"tim", "time", true}, {"ti", "time", true}, {"time", "tim", true},
		{"tume", "time", true}, {"itme", "time", true}, {"emit", "time", false}, {"alpha", "time", false},
		{"", "time", false}, {"npx", "top", false}, {"docker", "doctor", false}, {"x", "", true}, {"tiem", "time", true},
	} {
		if got := IsNear(c.typed, c.word); got != c.want {
			t.Errorf("%q is near %q: %v", c.typed, c.word, got)
		}
	}
}

// A hint has the one name that is almost right, or else the names that there are.
func TestHintFor(t *testing.T) {
	called := func(names ...string) (servers []*fleet.Listed) {
		for _, name := range names {
			servers = append(servers, &fleet.Listed{Facts: protocol.Facts{Name: name}})
		}
		return servers
	}
	for want, servers := range map[string][]*fleet.Listed{
		"":                          nil,
		"did you mean time?":        called("git", "time", "time"),
		"running: git, x?y":         called("x\ny", "git", "git"),
		"running: a, b, c, d, e, …": called("a", "b", "c", "d", "e", "f"),
	} {
		if got := hintFor(servers, "tim"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
