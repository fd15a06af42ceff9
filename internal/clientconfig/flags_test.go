// SPDX-License-Identifier: Apache-2.0

package clientconfig

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/internal/clientconfig/wrapping"
)

// The name that wrap gives a server does not count as a flag. Another one does: ls has it.
func TestFlags(t *testing.T) {
	h := newHome(t)
	h.write(".cursor/mcp.json", fmt.Sprintf(`{"mcpServers": {
  "bare": {"command": "x"},
  "plain": {"command": %[1]q, "args": ["run", "--name", "plain", "--", "y"]},
  "named": {"command": %[1]q, "args": ["run", "--idle-freeze=10m", "--name", "other", "y", "--name", "z"]},
  "broken": {"command": %[1]q, "args": ["run", "--memory-mx", "1G", "--", "y"]},
  "nothing": {"command": %[1]q, "args": ["run", "--name", "x"]}
}}`, h.program))
	c := h.one("cursor")
	var got []string
	for i := range c.Servers {
		var words []string
		for _, f := range Flags(c, &c.Servers[i]) {
			words = append(words, f.Words...)
		}
		got = append(got, strings.Join(words, " "))
	}
	want := []string{"", "", "--idle-freeze=10m --name other", "--memory-mx 1G", ""}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// A server that is wrapped later than all others does not have their flag, unless it comes from elsewhere.
func TestMissingFlags(t *testing.T) {
	h := newHome(t)
	const server = `"%s": {"command": %q, "args": ["run", %s"--", "y"]}`
	with := func(name, flags string) string { return fmt.Sprintf(server, name, h.program, flags) }
	const bare = `"late": {"command": "x"}, "later": {"command": "x", "env": {"MCPSCOPE_IDLE_FREEZE": "1h"}}`
	for _, c := range []struct {
		servers  []string
		settings string
		flags    []wrapping.Flag
		want     string
	}{
		{[]string{bare}, "", nil, "[]"},
		{[]string{with("a", ""), bare}, "", nil, "[]"},
		{[]string{with("a", `"--idle-freeze", "10m", `), with("b", ""), bare}, "", nil, "[]"},
		{[]string{with("a", `"--idle-freeze", "10m", `), bare}, "", nil, "[{[{idle-freeze 10m}] [late]}]"},
		{[]string{bare, with("a", `"--idle-freeze=10m", `), with("b", `"--idle-freeze", "1h", `)}, "", nil, "[{[{idle-freeze 10m}] [late]}]"},
		{[]string{bare, with("a", `"--min-free", "1G", "--idle-freeze", "0", `)}, "", nil, "[{[{idle-freeze 0}] [late]} {[{min-free 1G}] [late later]}]"},
		{[]string{`"late": {"command": "x"}`, with("a", `"--min-free", "1G", "--idle-freeze", "0", `)}, "", nil,
			"[{[{idle-freeze 0} {min-free 1G}] [late]}]"},
		{[]string{bare, with("a", `"--idle-freeze", "10m", `)}, "[defaults]\nidle-freeze = '1h'\n", nil, "[]"},
		{[]string{bare, with("a", `"--idle-freeze", "10m", `)}, "", []wrapping.Flag{{Name: "idle-freeze", Value: "5m"}}, "[]"},
	} {
		h.write("mcpscope.toml", c.settings)
		h.write(".cursor/mcp.json", `{"mcpServers": {`+strings.Join(c.servers, ", ")+"}}")
		change := h.one("cursor").Wrap(wrapping.Runner{Program: h.program, Flags: c.flags}, everyServer)
		if got := fmt.Sprint(change.MissingFlags("idle-freeze", "min-free")); got != c.want {
			t.Errorf("%s %s: %s, want %s", c.servers, c.settings, got, c.want)
		}
	}
}

// Flags and variables in files are those of servers that run by the name, however they got it.
func TestSettingsOf(t *testing.T) {
	h := newHome(t)
	h.write(".cursor/mcp.json", fmt.Sprintf(`{"mcpServers": {
  "bare": {"command": "x", "env": {"MCPSCOPE_IDLE_FREEZE": "1h"}},
  "a": {"command": %[1]q, "args": ["run", "--idle-freeze", "10m", "--name", "hog", "--", "y"], "env": {"MCPSCOPE_MIN_FREE": "1G"}},
  "hog": {"command": %[1]q, "args": ["run", "--memory-max=2G", "--name", "other", "--", "y"]},
  "b": {"command": %[1]q, "args": ["run", "--require", "--", "hog", "--key", "s3cret"]},
  "c": {"command": %[1]q, "args": ["run", "--pids-max", "9", "--", "z"], "env": {"MCPSCOPE_NAME": "hog", "KEY": "s3cret"}}
}}`, h.program))
	found := h.find()
	got := fmt.Sprint(found.SettingsOf("hog"))
	file := h.path(".cursor/mcp.json")
	want := fmt.Sprintf("[{ MCPSCOPE_MIN_FREE 1G %[1]s 3} {--idle-freeze  10m %[1]s 3} {--require  true %[1]s 5} {--pids-max  9 %[1]s 6}]", file)
	if got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := found.SettingsOf("a"); got != nil {
		t.Errorf("its name is another: %v", got)
	}
	if got := found.RunNames(); !slices.Equal(got, []string{"bare", "hog", "other", "hog", "hog"}) {
		t.Errorf("names %q", got)
	}
}
