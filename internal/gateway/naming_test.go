// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"strings"
	"testing"
)

// An argument of a configuration matches another text only where it has variables.
func TestPattern(t *testing.T) {
	for _, c := range []struct {
		configured, text string
		want             bool
	}{
		{"plain", "plain", true},
		{"plain", "other", false},
		{"${HOME}/x", "/home/a/x", true},
		{"${HOME}/x", "/home/a/y", false},
		{"${input:key}", "secret", true},
		{"${workspaceFolder}/a ${env:B}", "/w/a b", true},
		{"pre$A-post", "pre1-post", true},
		{"pre$A-post", "pre1-", false},
		{"{env:KEY}", "secret", true},
		{"~/data", "/home/a/data", true},
		{"a~/data", "a/home/data", false},
		{`{"mode": "serve"}`, "--backup-everything", false},
		{`{"mode": "serve"}`, `{"mode": "serve"}`, true},
		{"^[a-z]{3}$", "anything", false},
		{"costs 5$", "costs 6$", false},
		{"100%{x}", "100%y", false},
		{"$", "x", false},
	} {
		if got := canBecome(c.configured, c.text); got != c.want {
			t.Errorf("%q may be %q: %v, want %v", c.text, c.configured, got, c.want)
		}
	}
}

// The configuration of the client that runs names a server, the variables choose among several entries, and
// otherwise the command names it.
func TestServerName(t *testing.T) {
	memory := []string{"mcp-server-memory"}
	file := func(value string) map[string]string { return map[string]string{"FILE": value} }
	rules := Rules{Configured: []Configured{
		{Name: "late", Client: "claude-code", Argv: memory},
		{Name: "omem", Client: "opencode", Argv: memory},
		{Name: "prod", Client: "cursor", Argv: memory, Env: file("/p")},
		{Name: "test", Client: "cursor", Argv: memory, Env: file("${HOME}/t")},
		{Name: "fact", Client: "factory", Argv: memory},
		{Name: "one", Client: "codex", Argv: []string{"uvx", "some-tool"}},
		{Name: "two", Client: "codex", Argv: []string{"uvx", "some-tool"}},
	}}
	for _, c := range []struct {
		what, gateway, line string
		variables           map[string]string
		want                string
	}{
		{"the entry of the gateway's client", "claude", "mcp-server-memory", nil, "late"},
		{"the same with a variable that the client adds", "claude", "mcp-server-memory", file("/a"), "late"},
		{"the entry of a client whose program has another name", "droid", "mcp-server-memory", nil, "fact"},
		{"another client", "opencode", "mcp-server-memory", nil, "omem"},
		{"the variables decide", "cursor", "mcp-server-memory", file("/p"), "prod"},
		{"with a variable in their text", "cursor", "mcp-server-memory", file("/home/a/t"), "test"},
		{"no variables fit", "cursor", "mcp-server-memory", file("/x"), "mcp-server-memory"},
		{"two entries of other clients", "gw.py", "mcp-server-memory", nil, "mcp-server-memory"},
		{"one entry of another client that sets the same", "gw.py", "mcp-server-memory", file("/p"), "prod"},
		{"none that sets the same", "gw.py", "mcp-server-memory", file("/x"), "mcp-server-memory"},
		{"two names for one recipe", "codex", "uvx some-tool", nil, "some-tool"},
		{"a command of no configuration", "claude", "/opt/y-mcp", nil, "y-mcp"},
	} {
		made := recipe{argv: strings.Fields(c.line), variables: c.variables}
		if got := rules.serverName(made, c.gateway); got != c.want {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
}

// A server that is started again has the same recipe, whatever its session is called.
func TestRecipe(t *testing.T) {
	base := []string{"HOME=/h", "PATH=/bin"}
	first := recipe{[]string{"a", "b"}, "/d", difference([]string{"HOME=/h", "PATH=/bin", "K=1", "CLAUDE_CODE_SESSION_ID=1"}, base)}
	again := recipe{[]string{"a", "b"}, "/d", difference([]string{"HOME=/h", "CLAUDE_CODE_SESSION_ID=2", "K=1", "SHLVL=2"}, base)}
	if first.number() != again.number() || first.number() == 0 {
		t.Errorf("%+v and %+v are different", first, again)
	}
	for what, other := range map[string]recipe{
		"arguments":     {[]string{"ab"}, "/d", first.variables},
		"a directory":   {first.argv, "/e", first.variables},
		"a variable":    {first.argv, "/d", map[string]string{"K": "2"}},
		"no variable":   {first.argv, "/d", nil},
		"one more":      {first.argv, "/d", map[string]string{"K": "1", "L": ""}},
		"a split value": {[]string{"a", "b", ""}, "/d", first.variables},
	} {
		if other.number() == first.number() {
			t.Errorf("with other %s it is the same", what)
		}
	}
}
