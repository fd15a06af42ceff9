// SPDX-License-Identifier: Apache-2.0

package selection

import (
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/internal/remedy"
	"github.com/mcpscope/mcpscope/internal/server/fleet"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// A hint has the one name that is almost right, or else the names that there are.
func TestWithNames(t *testing.T) {
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
		unknown := &UnknownError{Arg: "tim"}
		err := withNames(unknown, servers)
		if got := remedy.Of(err); got != want || unknown.IsNear != strings.HasPrefix(want, "did you mean") {
			t.Errorf("%q, want %q (%+v)", got, want, unknown)
		}
	}
}
