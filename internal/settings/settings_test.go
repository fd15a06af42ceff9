// SPDX-License-Identifier: Apache-2.0

//go:build linux

package settings

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/cgroup"
)

// A row is whole: what takes a value says what kind, each default and each value to complete is one that is taken, no flag
// means two things, and a limit goes to the file that its row names.
func TestRows(t *testing.T) {
	seen := map[string]bool{}
	for i := range table {
		r := &table[i]
		if r.Help == "" || r.For == 0 || r.parse == nil || strings.HasPrefix(r.Name, "-") || seen[r.Name] || r.Short != "" && seen[r.Short] {
			t.Errorf("%+v", r)
		}
		seen[r.Name], seen[r.Short] = true, r.Short != ""
		for _, text := range append(slices.Clone(r.Values), r.Default) {
			if text == "" {
				continue
			}
			if err := r.set(Defaults(), text); err != nil {
				t.Errorf("%s %s: %v", r.Name, text, err)
			}
		}
		if r.Where&File != 0 && r.Where&Variable == 0 {
			t.Errorf("%s can be set in a file and not in the environment", r.Name)
		}
		if r.File == "" || r.Switch() {
			continue
		}
		v := Defaults()
		if err := r.set(v, map[bool]string{true: "7M", false: "7"}[cgroup.OfMemory(r.File)]); err != nil {
			t.Fatal(err)
		}
		if len(v.Limits.Files) != 1 || v.Limits.Files[0].File != r.File {
			t.Errorf("--%s: %+v, not %s", r.Name, v.Limits.Files, r.File)
		}
	}
}

func TestParse(t *testing.T) {
	for _, c := range []struct {
		of                  Command
		line, operands, err string
		check               func(*Values) bool
	}{
		{Run, "--term-grace 3s cmd -v", "cmd -v", "", func(v *Values) bool { return v.Policy.TermGrace.Seconds() == 3 && !v.Verbose }},
		{Run, "-term-grace=3s -- -v", "-v", "", func(v *Values) bool { return v.Policy.TermGrace.Seconds() == 3 && !v.Verbose }},
		{Run, "--set memory.min=64M --set=pids.max=3;cpu.weight=5 x", "x", "", func(v *Values) bool { return len(v.Limits.Files) == 3 }},
		{Run, "--require", "", "", func(v *Values) bool { return v.Require && v.Given("require") && !v.Given("replace") }},
		{Gateway, "--match a --match b g", "g", "", func(v *Values) bool { return len(v.Match) == 2 }},
		{Run, "--nope=3 x", "", `unknown flag "--nope"`, nil},
		{Run, "--name", "", "flag --name needs a value", nil},
		{Run, "--require=maybe", "", `--require "maybe": "maybe" is neither true nor false`, nil},
	} {
		v := Defaults()
		operands, help, err := v.FromArguments(c.of, strings.Fields(c.line))
		if err != nil {
			if err.Error() != c.err {
				t.Errorf("%s: %v", c.line, err)
			}
			continue
		}
		if help || c.err != "" || strings.Join(operands, " ") != c.operands || !c.check(v) {
			t.Errorf("%s: %q, %v, %+v", c.line, operands, help, v)
		}
	}
	for _, line := range []string{"-h", "-v --help"} {
		if _, help, err := Defaults().FromArguments(Gateway, strings.Fields(line)); !help || err != nil {
			t.Errorf("%s: %v, %v", line, help, err)
		}
	}
}

// A flag counts more than a variable, that more than a file.
func TestOrder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mcpscope.toml")
	text := "[defaults]\nterm-grace = '1m'\neof-grace = '2m'\nmax-lifetime = '3m'\nreplace = true\nquiet = true\nrequire = true"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Setenv(FileVariable, file)
	t.Setenv("MCPSCOPE_EOF_GRACE", "20s")
	t.Setenv("MCPSCOPE_REQUIRE", "false")
	t.Setenv("MCPSCOPE_NAME", "")
	v := Defaults()
	if _, _, err := v.Parse(Run, []string{"--term-grace", "10s", "--replace=false", "cmd"}); err != nil {
		t.Fatal(err)
	}
	c := ReadFiles()
	if len(c.Problems) > 0 {
		t.Fatal(c.Problems)
	}
	v.FromFile(c.For("x"))
	p := v.Policy
	if p.TermGrace.Seconds() != 10 || p.EOFGrace.Seconds() != 20 || p.MaxLifetime.Minutes() != 3 || v.Replace || v.Require || !v.Quiet {
		t.Errorf("%+v", v)
	}
	t.Setenv("MCPSCOPE_EOF_GRACE", "x")
	if _, _, err := Defaults().Parse(Run, []string{"cmd"}); err == nil || !strings.HasPrefix(err.Error(), "MCPSCOPE_EOF_GRACE: ") {
		t.Errorf("a bad variable: %v", err)
	}
}
