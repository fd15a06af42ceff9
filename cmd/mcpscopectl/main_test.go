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

	"github.com/mcpscope/mcpscope/internal/cli"
)

// TestMain puts the runner beside the test, where the tool looks for it.
func TestMain(m *testing.M) {
	own, err := cli.Own()
	if err == nil {
		var out []byte
		if out, err = exec.Command("go", "build", "-o", filepath.Join(filepath.Dir(own), cli.Runner), "../mcpscope").CombinedOutput(); err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
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

// What was asked for is on stdout, with status 0, and nothing on stderr.
func TestAskedFor(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"help"}, "Usage: mcpscope COMMAND"},
		{[]string{"--help"}, "Usage: mcpscope COMMAND"},
		{[]string{"-h"}, "Usage: mcpscope COMMAND"},
		{[]string{"help", "run"}, "--eof-grace D"},
		{[]string{"help", "sweep"}, "Usage: mcpscope sweep"},
		{[]string{"sweep", "--help"}, "Usage: mcpscope sweep"},
		{[]string{"help", "status"}, "Usage: mcpscope status"},
		{[]string{"wrap", "--help"}, "Usage: mcpscope wrap"},
		{[]string{"unwrap", "-h"}, "Usage: mcpscope unwrap"},
		{[]string{"help", "completion"}, "bash|zsh|fish"},
		{[]string{"completion", "--help"}, "bash|zsh|fish"},
		{[]string{"help", "help"}, "Usage: mcpscope help"},
		{[]string{"version"}, "mcpscope "},
		{[]string{"--version"}, "mcpscope "},
		{[]string{"version", "--help"}, "Usage: mcpscope version"},
	} {
		if s := say(c.args...); s.status != 0 || s.err != "" || !strings.Contains(s.out, c.want) {
			t.Errorf("%q: %+v", c.args, s)
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
		{nil, cli.ExitUsage, "mcpscope: no command given\nmcpscope: hint: mcpscope help\n"},
		{[]string{"rum"}, cli.ExitUsage, "mcpscope: unknown command \"rum\"\nmcpscope: hint: mcpscope run\n"},
		{[]string{"npx"}, cli.ExitUsage, "mcpscope: unknown command \"npx\"\nmcpscope: hint: mcpscope run -- npx …, or mcpscope help\n"},
		{[]string{"help", "nope"}, cli.ExitUsage, "mcpscope: help: unknown command \"nope\"\nmcpscope: hint: mcpscope help\n"},
		{[]string{"help", "supervise"}, cli.ExitUsage, "mcpscope: help: unknown command \"supervise\"\nmcpscope: hint: mcpscope help\n"},
		{[]string{"sweep", "x"}, cli.ExitUsage, "mcpscope: sweep: unexpected argument \"x\"\nmcpscope: hint: mcpscope help sweep\n"},
		{[]string{"unwrap"}, cli.ExitUsage, "mcpscope: unwrap: which client or file? --all is every one\nmcpscope: hint: mcpscope help unwrap\n"},
		{[]string{"wrap", "--nope"}, cli.ExitUsage, "mcpscope: wrap: unknown flag \"--nope\"\nmcpscope: hint: mcpscope help wrap\n"},
		{[]string{"status", "nope"}, cli.ExitFailure, "mcpscope: cannot find configurations: \"nope\" is neither a client nor a file\n"},
		{[]string{"completion", "tcsh"}, cli.ExitUsage, "mcpscope: completion: no script for \"tcsh\"\nmcpscope: hint: mcpscope completion bash|zsh|fish\n"},
	} {
		if s := say(c.args...); s.status != c.status || s.out != "" || s.err != c.want {
			t.Errorf("%q: status %d\n%s\nwant status %d\n%s", c.args, s.status, s.err+s.out, c.status, c.want)
		}
	}
}

func TestCompletionScriptsAreSound(t *testing.T) {
	for shell, check := range map[string][]string{"bash": {"bash", "-n"}, "zsh": {"zsh", "-n"}, "fish": {"fish", "-n"}} {
		script := say("completion", shell)
		if script.status != 0 || !strings.Contains(script.out, "eof-grace") || !strings.Contains(script.out, "sweep") {
			t.Errorf("%s: %+v", shell, script)
		}
		if _, err := exec.LookPath(check[0]); err != nil {
			t.Logf("%s is not here to check its script", shell)
			continue
		}
		cmd := exec.Command(check[0], check[1:]...)
		cmd.Stdin = strings.NewReader(script.out)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", shell, err, out)
		}
	}
}

// In bash, the words after the server's command are bash's to complete.
func TestBashCompletes(t *testing.T) {
	for line, want := range map[string]string{
		"mcpscope r":                       "run",
		"mcpscope run --eof":               "--eof-grace",
		"mcpscope run --on-client-death s": "stop",
		"mcpscope run --name x --te":       "--term-grace",
		"mcpscope completion z":            "zsh",
		"mcpscope help sw":                 "sweep",
		"mcpscope ls --dup":                "--duplicates",
		"mcpscope sweep --older":           "--older-than",
		"mcpscope events --f":              "--follow",
		"mcpscope config sho":              "show",
		"mcpscope stop --gr":               "--grace",
		"mcpscope stop time-":              "time-server",
	} {
		words := strings.Fields(line)
		script := say("completion", "bash").out + `
mcpscope() { echo time-server; echo k3x9w2ab; }
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_mcpscope
echo "${COMPREPLY[*]}"`
		out, err := exec.Command("bash", append([]string{"-c", script, "bash"}, words...)...).Output()
		if got := strings.TrimSpace(string(out)); err != nil || got != want {
			t.Errorf("%q completes to %q (%v), want %q", line, got, err, want)
		}
	}
}

func TestHarmless(t *testing.T) {
	for word, want := range map[string]bool{"time": true, "k3x9w2ab": true, "a.b@c:d+e-f_1": true, "": false, "$(reboot)": false, "`a`": false, "a b": false, "-x": false, "ü": false, "a\nb": false} {
		if harmless(word) != want {
			t.Errorf("%q: %v", word, !want)
		}
	}
}
