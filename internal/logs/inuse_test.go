// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"slices"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/internal/server/report"
)

// What ended in use once is not told again, what ended so twice is, and a forged entry is nothing.
func TestUsedLines(t *testing.T) {
	tmux := report.InUse{PID: 7, Name: "tmux", Use: "a connection to its socket /t"}.String()
	ssh := report.InUse{PID: 8, Name: "ssh", Use: "a connection to its socket /s"}.String()
	quoted := func(text string) string { return `"` + strings.ReplaceAll(text, `"`, `\"`) + `"` }
	entries := `{"__CURSOR": "1"}
{"MCPSCOPE_IN_USE": ` + quoted(tmux) + `}
{"MCPSCOPE_IN_USE": [` + quoted(ssh) + `, ` + quoted(tmux) + `]}
{"MCPSCOPE_IN_USE": 7}
{"MCPSCOPE_IN_USE": [7, null, "anything"]}
`
	counts := map[string]int{}
	countInUse(strings.NewReader(entries), counts)
	want := []string{`tmux ended with its server 2 times although others used it: keep = ["tmux"] in mcpscope.toml lets it stay`}
	if got := usedLines(counts); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
