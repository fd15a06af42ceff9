// SPDX-License-Identifier: Apache-2.0

//go:build linux

package settings

import (
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/scope"
)

// A row is whole: what takes a value says what kind, each default and each value to complete is
// one that is taken, and no flag means two things.
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
	}
	var backends []string
	for _, b := range scope.Backends {
		backends = append(backends, string(b))
	}
	if r := find(Run, "backend"); !slices.Equal(r.Values, backends) {
		t.Errorf("backends %q, to complete are %q", backends, r.Values)
	}
}

// A limit goes to the file that its row names.
func TestFilesOfLimits(t *testing.T) {
	for i := range table {
		r := &table[i]
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

// What the rows say of the defaults is what happens without a setting.
func TestDefaults(t *testing.T) {
	told := Defaults()
	for i := range table {
		if r := &table[i]; r.Default != "" {
			if err := r.set(told, r.Default); err != nil {
				t.Errorf("%s: %v", r.Name, err)
			}
		}
	}
	plain := Defaults()
	told.Limits.Files = slices.DeleteFunc(told.Limits.Files, func(l cgroup.Limit) bool { return strings.HasSuffix(l.Value, "100") }) // the kernel's own weights
	if told.Limits.Files = slices.Clip(told.Limits.Files); len(told.Limits.Files) == 0 {
		told.Limits.Files = nil
	}
	if !reflect.DeepEqual(plain, told) {
		t.Errorf("%+v, not %+v", told, plain)
	}
}

func TestParse(t *testing.T) {
	for _, c := range []struct {
		line, operands, err string
		check               func(*Values) bool
	}{
		{"--term-grace 3s cmd -v", "cmd -v", "", func(v *Values) bool { return v.Policy.TermGrace.Seconds() == 3 && !v.Verbose }},
		{"-term-grace=3s -- -v", "-v", "", func(v *Values) bool { return v.Policy.TermGrace.Seconds() == 3 && !v.Verbose }},
		{"--set memory.min=64M --set=pids.max=3;cpu.weight=5 x", "x", "", func(v *Values) bool { return len(v.Limits.Files) == 3 }},
		{"--require", "", "", func(v *Values) bool { return v.Require && v.Given("require") && !v.Given("replace") }},
		{"--nope=3 x", "", `unknown flag "--nope"`, nil},
		{"--name", "", "flag --name needs a value", nil},
		{"--require=maybe", "", `--require "maybe": "maybe" is neither true nor false`, nil},
	} {
		v := Defaults()
		operands, help, err := v.FromArguments(Run, strings.Fields(c.line))
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
	for _, line := range []string{"-h", "--help", "-help", "-v --help"} {
		if _, help, err := Defaults().FromArguments(Gateway, strings.Fields(line)); !help || err != nil {
			t.Errorf("%s: %v, %v", line, help, err)
		}
	}
	v := Defaults()
	if operands, _, err := v.FromArguments(Gateway, strings.Fields("--match a --match b --config c g")); err != nil || len(v.Match) != 2 || len(v.Configs) != 1 || len(operands) != 1 {
		t.Errorf("%+v, %v", v, err)
	}
}

// A flag counts more than a variable, that more than a file.
func TestOrder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mcpscope.toml")
	if err := os.WriteFile(file, []byte("[defaults]\nterm-grace = '1m'\neof-grace = '2m'\nmax-lifetime = '3m'\nreplace = true\nquiet = true\nrequire = true"), 0o600); err != nil {
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
	if v.From["max-lifetime"].Line != 4 || v.From["term-grace"].Line != 0 {
		t.Errorf("%+v", v.From)
	}
	t.Setenv("MCPSCOPE_EOF_GRACE", "x")
	if _, _, err := Defaults().Parse(Run, []string{"cmd"}); err == nil || !strings.HasPrefix(err.Error(), "MCPSCOPE_EOF_GRACE: ") {
		t.Errorf("a bad variable: %v", err)
	}
}

// Every setting but those that a command line alone has is taken out of the server's environment.
func TestVariables(t *testing.T) {
	cmd := exec.Command(os.Args[0], "-test.run=^TestPrintEnvironment$")
	cmd.Env = []string{"PRINT_ENVIRONMENT=1", "B=1", "MCPSCOPE_NAME=x", "MCPSCOPE_ID=y", "MCPSCOPE_OTHER=z", "nonsense", "A=", "MCPSCOPE_QUIET=1", "MCPSCOPE_CONFIG=/x"}
	out, err := cmd.Output()
	if err != nil || !strings.HasPrefix(string(out), "PRINT_ENVIRONMENT=1|B=1|MCPSCOPE_OTHER=z|nonsense|A=\n") {
		t.Errorf("%q (%v)", out, err)
	}
}

// TestPrintEnvironment is a part of TestVariables that needs a process of its own.
func TestPrintEnvironment(t *testing.T) {
	if os.Getenv("PRINT_ENVIRONMENT") != "" {
		os.Stdout.WriteString(strings.Join(ServerEnvironment(), "|") + "\n")
	}
}
