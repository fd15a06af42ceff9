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

// A session that may be meant is named, or those that there are, behind the servers.
func TestWithSessions(t *testing.T) {
	for _, c := range []struct {
		running, sessions []string
		want              string
	}{
		{nil, nil, ""},
		{nil, []string{"codex"}, "sessions: codex"},
		{[]string{"git"}, []string{"codex"}, "running: git; sessions: codex"},
		{[]string{"git"}, []string{"codex", "claud"}, "did you mean claud?"},
		{[]string{"claudee"}, []string{"claud"}, "did you mean claudee?"},
		{[]string{"git"}, nil, "running: git"},
	} {
		unknown := &UnknownError{Arg: "claude"}
		var servers []*fleet.Listed
		for _, name := range c.running {
			servers = append(servers, &fleet.Listed{Facts: protocol.Facts{Name: name}})
		}
		err := withSessions(withNames(unknown, servers), c.sessions)
		if got := remedy.Of(err); got != c.want || unknown.IsNear != strings.HasPrefix(c.want, "did you mean") {
			t.Errorf("%v: %q, %t", c, got, unknown.IsNear)
		}
	}
	if err := withSessions(nil, []string{"codex"}); err != nil {
		t.Error(err)
	}
}
