// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/settings"
)

// configured gives the process this one configuration file.
func configuredBy(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "mcpscope.toml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", "")
	t.Setenv("XDG_CONFIG_HOME", "")
	t.Setenv("MCPSCOPE_CONFIG", file)
	return file
}

const example = `[defaults]
require = true
term-grace = "2s"

[server."git*"]
eof-grace = "5s"
replace = true
idle-timeot = "1h"
`

func TestConfigShow(t *testing.T) {
	file := configuredBy(t, example)
	t.Setenv("MCPSCOPE_TERM_GRACE", "7s")
	t.Setenv("MCPSCOPE_VERBOSE", "1")
	want := `KEY              VALUE      FROM
backend          auto       default
cpu-max          infinity   default
cpu-weight       100        default
detach-command   -          default
eof-grace        5s         FILE:6 [server."git*"]
idle-timeout     infinity   default
io-weight        100        default
limits           strict     default
max-copies       infinity   default
max-lifetime     infinity   default
memory-high      infinity   default
memory-max       infinity   default
no-browser       false      default
on-client-death  auto       default
oom-group        true       default
pids-max         infinity   default
quiet            false      default
replace          true       FILE:7 [server."git*"]
report           -          default
require          true       FILE:2 [defaults]
set              -          default
slice            mcp.slice  default
stderr           inherit    default
strict-config    false      default
swap-max         infinity   default
term-grace       7s         MCPSCOPE_TERM_GRACE
verbose          true       MCPSCOPE_VERBOSE
`
	s := say("config", "show", "github")
	note := "mcpscope: note: FILE:8: unknown key \"idle-timeot\"; is it \"idle-timeout\"?\n"
	place := func(s string) string { return strings.ReplaceAll(s, file, "FILE") }
	if place(s.out) != want || place(s.err) != note || s.status != cli.ExitOK {
		t.Errorf("status %d, stderr %s\n%s", s.status, s.err, s.out)
	}
	var got struct {
		Version  int
		Name     string
		Files    []string
		Settings []setting
		Problems []settings.FileProblem
	}
	s = say("config", "show", "other", "--json")
	if err := json.Unmarshal([]byte(s.out), &got); err != nil || s.err != "" || s.status != cli.ExitOK {
		t.Fatalf("%v: %+v", err, s)
	}
	if got.Version != 1 || got.Name != "other" || len(got.Files) != 1 || got.Files[0] != file || len(got.Settings) != strings.Count(want, "\n")-1 ||
		len(got.Problems) != 1 || got.Problems[0].Line != 8 {
		t.Errorf("%+v", got)
	}
	for _, want := range []setting{
		{Key: "eof-grace", Value: "1.2s", From: "default"},
		{Key: "require", Value: "true", From: "file", File: file, Line: 2, Section: "[defaults]"},
		{Key: "term-grace", Value: "7s", From: "variable", Name: "MCPSCOPE_TERM_GRACE"},
	} {
		found := false
		for _, s := range got.Settings {
			found = found || s == want
		}
		if !found {
			t.Errorf("no %+v in %+v", want, got.Settings)
		}
	}
}

func TestConfigCheck(t *testing.T) {
	file := configuredBy(t, example)
	other := filepath.Join(t.TempDir(), "a\x1bb.toml")
	if err := os.WriteFile(other, []byte("[defaults]\nverbose = true"), 0o666); err != nil {
		t.Fatal(err)
	}
	complaint := file + ":8: unknown key \"idle-timeot\"; is it \"idle-timeout\"?\n"
	for _, c := range []struct {
		args   []string
		status int
		out    string
	}{
		{nil, cli.ExitFailure, complaint},
		{[]string{other}, cli.ExitOK, ""},
		{[]string{other, file, other + "x"}, cli.ExitFailure, complaint + strings.ReplaceAll(other, "\x1b", "?") + "x: no such file or directory\n"},
	} {
		if s := say(append([]string{"config", "check"}, c.args...)...); s.status != c.status || s.out != c.out || s.err != "" {
			t.Errorf("%q: %+v", c.args, s)
		}
	}
	for _, args := range [][]string{{}, {"show"}, {"sow"}, {"show", "a", "b"}, {"check", "--json"}, {"--nope"}} {
		if s := say(append([]string{"config"}, args...)...); s.status != cli.ExitUsage || s.out != "" || !strings.HasSuffix(s.err, "\nmcpscope: hint: mcpscope help config\n") {
			t.Errorf("%q: %+v", args, s)
		}
	}
}
