// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"strings"
	"testing"
)

// A command line is judged as the watcher judges it, and gets the name that the server would get.
func TestForesee(t *testing.T) {
	line := strings.Fields
	rules := Rules{
		Match: []string{"python my.py"}, Except: []string{"git*"},
		Configured: []Configured{
			{Name: "time", Client: "hermes", File: "f", Argv: line("uvx mcp-server-time"), Env: map[string]string{"TZ": "${TZ}"}},
			{Name: "clock", Client: "codex", File: "g", Argv: line("uvx mcp-server-time")},
		},
	}
	for _, c := range []struct {
		command string
		want    Verdict
		why     string
		name    string
	}{
		{"npx -y foo-mcp", NamedLikeServer, `its name is "foo-mcp"`, "foo-mcp"},
		{"node build/index.js", MayBeServer, "", "index"},
		{"python my.py", IsServer, `match "python my.py"`, "my"},
		{"github-mcp-server stdio", NotServer, `except "git*"`, "github-mcp-server"},
		{"/usr/bin/uvx mcp-server-time", IsServer, `configured as "time" in f`, "time"},
		{"mcpscope run -- npx x", NotServer, "mcpscope run contains it", "mcpscope"},
		{"mcpscope gateway -- x", MayBeServer, "", "mcpscope"},
	} {
		if got := rules.ForeseeCommand(line(c.command)); got != (Foreseen{c.want, c.why, c.name}) {
			t.Errorf("%s: %+v, want %+v", c.command, got, c)
		}
	}
	// Each gateway has the names of its own client's file, and the reason is the entry that has the name.
	for gateway, want := range map[string]string{
		"hermes-gateway": "time in f, mcp-server-time in f", "codex": "clock in g, clock in g", "other": "time in f, clock in g",
	} {
		var texts []string
		for i := range rules.Configured {
			f := rules.ForeseeEntry(&rules.Configured[i], gateway)
			_, file, _ := strings.Cut(f.Why, " in ")
			texts = append(texts, f.Name+" in "+file)
		}
		if got := strings.Join(texts, ", "); got != want {
			t.Errorf("%s: %s, want %s", gateway, got, want)
		}
	}
}
