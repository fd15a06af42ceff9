// SPDX-License-Identifier: Apache-2.0

package clientconfig

import (
	"fmt"
	"slices"
	"testing"

	"github.com/mcpscope/mcpscope/internal/clientconfig/known"
	"github.com/mcpscope/mcpscope/internal/clientconfig/wrapping"
)

// A server that wrap leaves alone is not counted: it is remote, or tracked by git.
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
		}},
	}
	got := coverageOf(files)
	want := Coverage{Wrapped: 2, Bare: []string{"one (cursor)", "fi?ve (/b.json)"}, Broken: []string{"four (/b.json)"}}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestCoverageLines(t *testing.T) {
	const gateway = ": mcpscope wrap, or put mcpscope gateway in front of the client"
	for _, c := range []struct {
		coverage Coverage
		want     []string
	}{
		{Coverage{}, nil},
		{Coverage{Wrapped: 3}, nil},
		{Coverage{Bare: []string{"a"}}, []string{"1 server is configured without mcpscope: a" + gateway}},
		{Coverage{Bare: []string{"a", "b"}, Broken: []string{"c"}}, []string{
			"2 servers are configured without mcpscope: a, b" + gateway,
			"1 configured server cannot start: c: mcpscope wrap repairs it, or has the reason",
		}},
		{Coverage{Broken: []string{"1", "2", "3", "4", "5", "6"}}, []string{
			"6 configured servers cannot start: 1, 2, 3, 4, 5, …: mcpscope wrap repairs it, or has the reason",
		}},
	} {
		if got := c.coverage.Lines(); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %q, want %q", c.coverage, got, c.want)
		}
	}
}

// A file that cannot be read is named with the reason, and nothing of its text.
func TestUnreadLines(t *testing.T) {
	h := newHome(t)
	h.write(".cursor/mcp.json", "{\n  \"s3cret\": {\n")
	h.write(".codex/config.toml", "[mcp_servers.clock]\ncommand = 'uvx'\n")
	found, err := Everywhere()
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
	got := FindCoverage()
	want := "[clock (codex)]"
	if got.Wrapped != 1 || fmt.Sprint(got.Bare) != want || len(got.Broken) > 0 {
		t.Errorf("%+v, want 1 wrapped server and %s", got, want)
	}
}
