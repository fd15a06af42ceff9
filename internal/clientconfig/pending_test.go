// SPDX-License-Identifier: Apache-2.0

package clientconfig

import (
	"fmt"
	"slices"
	"testing"

	"github.com/mcpscope/mcpscope/internal/clientconfig/configfile"
	"github.com/mcpscope/mcpscope/internal/clientconfig/known"
	"github.com/mcpscope/mcpscope/internal/clientconfig/wrapping"
)

// A server that wrap leaves alone is not counted: it is remote, tracked by git, or of a plugin.
func TestCoverageOf(t *testing.T) {
	files := []*File{
		{File: known.File{Client: "cursor", Path: "/a"}, Servers: []wrapping.Server{
			{Name: "one", State: wrapping.Bare},
			{Name: "shared", State: wrapping.Bare, Reason: tracked},
			{Name: "two", State: wrapping.Wrapped},
			{Name: "three", State: wrapping.NotEditable, Reason: "it is remote"},
		}},
		{File: known.File{Path: "/b.json"}, Servers: []wrapping.Server{
			{Name: "four", State: wrapping.Broken, Reason: "any"},
			{Name: "fi\x1bve", State: wrapping.Bare},
			{Name: "six", State: wrapping.Wrapped},
			{Name: "fixed", State: wrapping.NotEditable, Reason: "it is read-only", Argv: []string{"uvx"}},
			{Name: "http", State: wrapping.NotEditable, Reason: "it is of type", Argv: []string{"uvx"}, Listens: true},
		}, content: &configfile.File{}},
		{File: known.File{Client: "claude-code", ReadOnly: "a plugin"}, Servers: []wrapping.Server{
			{Name: "plugin", State: wrapping.NotEditable, Reason: "a plugin", Argv: []string{"uvx"}},
		}},
	}
	got := coverageOf(files)
	want := Coverage{
		Wrapped: 2, Bare: []BareServer{{"one (cursor)", "cursor"}, {"fi?ve (/b.json)", ""}},
		Stuck:  []StuckServer{{BareServer{"fixed (/b.json)", ""}, ""}},
		Broken: []string{"four (/b.json)"},
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestCoverageLines(t *testing.T) {
	const gateway = ": mcpscope wrap, or put mcpscope gateway in front of the client"
	a := BareServer{"a (codex)", "codex"}
	b := BareServer{"b (claude-code)", "claude-code"}
	c := BareServer{"c (claude-code)", "claude-code"}
	for _, test := range []struct {
		coverage Coverage
		inside   map[string]string
		want     []string
	}{
		{Coverage{}, nil, nil},
		{Coverage{Wrapped: 3}, nil, nil},
		{Coverage{Bare: []BareServer{a}}, nil, []string{"1 server is configured without mcpscope: a (codex)" + gateway}},
		{Coverage{Bare: []BareServer{a, b}, Broken: []string{"c"}}, nil, []string{
			"2 servers are configured without mcpscope: a (codex), b (claude-code)" + gateway,
			"1 configured server cannot start: c: mcpscope wrap repairs it, or has the reason",
		}},
		{Coverage{Broken: []string{"1", "2", "3", "4", "5", "6"}}, nil, []string{
			"6 configured servers cannot start: 1, 2, 3, 4, 5, …: mcpscope wrap repairs it, or has the reason",
		}},
		{Coverage{Stuck: []StuckServer{{b, ""}, {a, "chmod u+w /x"}, {c, ""}}}, nil, []string{
			"2 servers are configured without mcpscope, where wrap cannot edit the command: b (claude-code), c (claude-code): " +
				"mcpscope wrap --list has the reason; or put mcpscope gateway in front of the client",
			"1 server is configured without mcpscope, where wrap cannot edit the command: a (codex): chmod u+w /x, then mcpscope wrap",
		}},
		{Coverage{Stuck: []StuckServer{{a, "chmod u+w /x"}}}, map[string]string{"codex": "codex[8]"}, []string{
			"1 server is contained only while the client runs below mcpscope, as codex[8] does now: " +
				"a (codex): for its other starts, mcpscope wrap",
		}},
		// A client that runs below mcpscope has its servers contained, as long as it does.
		{Coverage{Bare: []BareServer{b, a, c}}, map[string]string{"claude-code": "claude[7]"}, []string{
			"1 server is configured without mcpscope: a (codex)" + gateway,
			"2 servers are contained only while the client runs below mcpscope, as claude[7] does now: " +
				"b (claude-code), c (claude-code): for its other starts, mcpscope wrap",
		}},
		{Coverage{Bare: []BareServer{a}}, map[string]string{"codex": "codex[8]"}, []string{
			"1 server is contained only while the client runs below mcpscope, as codex[8] does now: " +
				"a (codex): for its other starts, mcpscope wrap",
		}},
	} {
		if got := test.coverage.Lines(test.inside); !slices.Equal(got, test.want) {
			t.Errorf("%+v: %q, want %q", test.coverage, got, test.want)
		}
	}
}

// A file that cannot be read is named with the reason, and nothing of its text.
func TestUnreadLines(t *testing.T) {
	h := newHome(t)
	h.write(".cursor/mcp.json", "{\n  \"s3cret\": {\n")
	h.write(".codex/config.toml", "[mcp_servers.clock]\ncommand = 'uvx'\n")
	found, err := NewSearch().Everywhere()
	if err != nil {
		t.Fatal(err)
	}
	got := found.UnreadLines()
	want := []string{"cannot read " + h.path(".cursor/mcp.json") + ": line 2, column 13: not valid JSON: this { is never closed"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// The coverage is that of the files that a search finds, without servers in files that git tracks.
func TestFindCoverage(t *testing.T) {
	h := newProject(t)
	h.write(".cursor/mcp.json", oneServer)
	h.wrap("cursor")
	h.write(".codex/config.toml", "[mcp_servers.clock]\ncommand = 'uvx'\n")
	got := everywhereOf(t).Coverage()
	want := "[{clock (codex) codex}]"
	if got.Wrapped != 1 || fmt.Sprint(got.Bare) != want || len(got.Broken) > 0 {
		t.Errorf("%+v, want 1 wrapped server and %s", got, want)
	}
}

// everywhereOf searches as a command does.
func everywhereOf(t *testing.T) Found {
	t.Helper()
	found, err := NewSearch().Everywhere()
	if err != nil {
		t.Fatal(err)
	}
	return found
}
