// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/programs"
	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/unprivileged"
)

func TestMain(m *testing.M) {
	if unprivileged.Inside() { // with a copy of the runner
		os.Exit(m.Run())
	}
	bed.Beside(func() int {
		if err := buildRunner(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return m.Run()
	})
}

// buildRunner puts the runner beside the test, where the tool looks for it.
func buildRunner() error {
	own, err := programs.Own()
	if err != nil {
		return err
	}
	runner := filepath.Join(filepath.Dir(own), programs.Runner)
	build := exec.Command("go", "build", "-buildvcs=false", "-o", runner, "../mcpscope")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // the race detector needs cgo
	out, err := build.CombinedOutput()
	if err != nil {
		return fmt.Errorf("build the runner: %w: %s", err, out)
	}
	return nil
}

type said struct {
	status   int
	out, err string
}

func say(args ...string) said {
	var out, err bytes.Buffer
	status := run(args, cli.Stdio{Out: &out, Err: &err})
	return said{status, out.String(), err.String()}
}

// Requested output is on stdout, with status 0, and stderr is empty.
func TestAskedFor(t *testing.T) {
	for line, want := range map[string]string{
		"": "Usage: mcpscope COMMAND", "help": "Usage: mcpscope COMMAND", "--help": "Usage: mcpscope COMMAND", "help run": "--eof-grace D",
		"sweep --help": "Usage: mcpscope sweep",
		"unwrap -h":    "Usage: mcpscope unwrap", "completion --help": "Usage: mcpscope completion", "completion bash --help": "Usage: mcpscope completion bash",
		"help help": "Usage: mcpscope help", "version": "mcpscope ",
	} {
		if s := say(strings.Fields(line)...); s.status != 0 || s.err != "" || !strings.Contains(s.out, want) {
			t.Errorf("%q: %+v", line, s)
		}
	}
}

// A mistake is one line, and at most one hint, on stderr.
func TestMistakes(t *testing.T) {
	for _, c := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"rum"}, cli.ExitUsage, "mcpscope: unknown command \"rum\"\nmcpscope: hint: mcpscope run\n"},
		{[]string{"sl"}, cli.ExitUsage, "mcpscope: unknown command \"sl\"\nmcpscope: hint: mcpscope ls\n"},
		{[]string{"-x"}, cli.ExitUsage, "mcpscope: unknown command \"-x\"\nmcpscope: hint: mcpscope help\n"},
		{[]string{"--all"}, cli.ExitUsage, "mcpscope: unknown command \"--all\"\nmcpscope: hint: mcpscope help\n"},
		{[]string{"docker"}, cli.ExitUsage, "mcpscope: unknown command \"docker\"\nmcpscope: hint: mcpscope run -- docker …, or mcpscope help\n"},
		{[]string{"npx"}, cli.ExitUsage, "mcpscope: unknown command \"npx\"\nmcpscope: hint: mcpscope run -- npx …, or mcpscope help\n"},
		{[]string{"completion", "nope"}, cli.ExitUsage, "mcpscope: completion: there is no script for the shell \"nope\"\nmcpscope: hint: mcpscope help completion\n"},
		{[]string{"help", "nope"}, cli.ExitUsage, "mcpscope: help: unknown command \"nope\"\nmcpscope: hint: mcpscope help\n"},
		{[]string{"set", "demo", "foo=1"}, cli.ExitUsage, "mcpscope: set: \"foo\" is not a file of a cgroup, such as memory.max\nmcpscope: hint: mcpscope help set\n"},
		{[]string{"wrap", "--list", "nope"}, cli.ExitFailure, "mcpscope: cannot find configurations: there is no client and no file \"nope\"; clients are claude-code, claude-desktop, codex, cursor, vscode, devcontainer, windsurf, zed, gemini, qwen, mcporter, copilot, goose, hermes, cline, continue, librechat, opencode, crush, kiro, lmstudio, amp, vibe, 1mcp, antigravity, kilo, kimi, factory, qoder, trae, openclaw, augment, junie, jetbrains, jan, roo, zoo\n"},
		{[]string{"wrap", "claude", "--program", "/bin/true"}, cli.ExitFailure, "mcpscope: cannot wrap: /bin/true is not called mcpscope: unwrap would not recognize it\nmcpscope: hint: install both programs permanently, or select an installed one: mcpscope wrap --program PATH\n"},
	} {
		if s := say(c.args...); s.status != c.status || s.out != "" || s.err != c.want {
			t.Errorf("%q: status %d\n%s\nwant status %d\n%s", c.args, s.status, s.err+s.out, c.status, c.want)
		}
	}
}

// Output that can't be written is a failure of its own, whatever the command has done.
func TestFullDisk(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	t.Setenv("HOME", t.TempDir())
	for _, line := range []string{
		"help", "help ls", "ls --help", "version", "ls --json", "wrap --list --json", "metrics",
		"units", "completion bash", "__complete r",
	} {
		var errs bytes.Buffer
		if status := run(strings.Fields(line), cli.Stdio{Out: full, Err: &errs}); status == cli.ExitOK || !strings.Contains(errs.String(), "no space left on device") {
			t.Errorf("%s: status %d: %s", line, status, errs.String())
		}
	}
}

// The table lists the exit statuses, and a mistake has the status of its command.
func TestExitStatuses(t *testing.T) {
	text, err := os.ReadFile("../../docs/reference/exit-statuses.md")
	if err != nil {
		t.Fatal(err)
	}
	for status, of := range map[int]string{
		cli.ExitOK: "all", cli.ExitFailure: "all but `run` and `gateway`", cli.ExitUsage: "all but `run` and `gateway`",
		cli.ExitNotRunnable: "`run`", cli.ExitNotFound: "`run`",
	} {
		if row := fmt.Sprintf("\n| %d | %s", status, of); !strings.Contains(string(text), row) {
			t.Errorf("no %q in the table", row)
		}
	}
	for _, c := range newRoot(cli.Stdio{}).Commands() {
		want := cli.ExitUsage
		switch c.Name() {
		case "run", "gateway":
			continue // it becomes the runner, whose test has it
		}
		if s := say(c.Name(), "--no-such-flag"); s.status != want {
			t.Errorf("a mistake of %s is %d, want %d", c.Name(), s.status, want)
		}
	}
}

// Every command is explained with examples first, and no line is wider than a terminal.
func TestHelps(t *testing.T) {
	for _, c := range newRoot(cli.Stdio{}).Commands() {
		if !c.IsAvailableCommand() {
			continue
		}
		help := say("help", c.Name()).out
		for line := range strings.Lines(help) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > cli.Width {
				t.Errorf("%s: %d columns: %s", c.Name(), n, line)
			}
		}
		if c.Name() != "version" && c.Name() != "completion" && !strings.HasPrefix(strings.Split(help, "\n")[2], "  ") {
			t.Errorf("%s: no example first:\n%s", c.Name(), help)
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Usage == "" {
				t.Errorf("%s --%s is not explained", c.Name(), f.Name)
			}
		})
	}
}

func TestHarmless(t *testing.T) {
	for word, want := range map[string]bool{"time": true, "k3x9w2ab": true, "a.b@c:d+e-f_1": true, "": false, "$(reboot)": false, "`a`": false, "a b": false, "-x": false, "ü": false, "a\nb": false} {
		if harmless(word) != want {
			t.Errorf("%q: %v", word, !want)
		}
	}
}
