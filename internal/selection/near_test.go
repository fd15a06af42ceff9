// SPDX-License-Identifier: Apache-2.0

package selection

import (
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/internal/remedy"
)

// A hint has the one name that is almost right, or else the names that there are, those of sessions behind those
// of servers.
func TestWithHint(t *testing.T) {
	for _, c := range []struct {
		name              string
		servers, sessions []string
		want              string
	}{
		{"tim", nil, nil, ""},
		{"tim", []string{"git", "time", "time"}, nil, "did you mean time?"},
		{"tim", []string{"x\ny", "git", "git"}, nil, "running: git, x?y"},
		{"tim", []string{"a", "b", "c", "d", "e", "f"}, nil, "running: a, b, c, d, e, …"},
		{"claude", nil, []string{"codex"}, "sessions: codex"},
		{"claude", []string{"git"}, []string{"codex"}, "running: git; sessions: codex"},
		{"claude", []string{"git"}, []string{"codex", "claud"}, "did you mean claud?"},
		{"claude", []string{"claudee"}, []string{"claud"}, "did you mean claudee?"},
		{"claude", []string{"git"}, nil, "running: git"},
	} {
		unknown := &UnknownError{Name: c.name}
		err := withHint(unknown, c.servers, c.sessions)
		if got := remedy.Of(err); got != c.want || unknown.IsNear != strings.HasPrefix(c.want, "did you mean") {
			t.Errorf("%v: %q, %t", c, got, unknown.IsNear)
		}
	}
}
