//go:build linux

package main

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"
)

type said struct {
	status   int
	out, err string
}

func say(args ...string) said {
	var out, err bytes.Buffer
	status := run(args, stdio{out: &out, err: &err})
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
		{[]string{"run", "--help"}, "--eof-grace D"},
		{[]string{"run", "-h"}, "--eof-grace D"},
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
		{nil, exitUsage, "mcpscope: no command given\nmcpscope: hint: mcpscope help\n"},
		{[]string{"rum"}, exitUsage, "mcpscope: unknown command \"rum\"\nmcpscope: hint: mcpscope run\n"},
		{[]string{"npx"}, exitUsage, "mcpscope: unknown command \"npx\"\nmcpscope: hint: mcpscope run -- npx …, or mcpscope help\n"},
		{[]string{"help", "nope"}, exitUsage, "mcpscope: help: unknown command \"nope\"\nmcpscope: hint: mcpscope help\n"},
		{[]string{"help", "supervise"}, exitUsage, "mcpscope: help: unknown command \"supervise\"\nmcpscope: hint: mcpscope help\n"},
		{[]string{"sweep", "x"}, exitUsage, "mcpscope: sweep: unexpected argument \"x\"\nmcpscope: hint: mcpscope help sweep\n"},
		{[]string{"unwrap"}, exitUsage, "mcpscope: unwrap: which client or file? --all is every one\nmcpscope: hint: mcpscope help unwrap\n"},
		{[]string{"wrap", "--nope"}, exitUsage, "mcpscope: wrap: unknown flag \"--nope\"\nmcpscope: hint: mcpscope help wrap\n"},
		{[]string{"status", "nope"}, exitFailure, "mcpscope: cannot find configurations: \"nope\" is neither a client nor a file\n"},
		{[]string{"completion", "tcsh"}, exitUsage, "mcpscope: completion: no script for \"tcsh\"\nmcpscope: hint: mcpscope completion bash|zsh|fish\n"},
		{[]string{"run"}, exitOwnFailure, "mcpscope: run: no command given\nmcpscope: hint: mcpscope run -- COMMAND [ARG…]\n"},
		{[]string{"run", "--nope", "x"}, exitOwnFailure, "mcpscope: run: unknown flag \"--nope\"\nmcpscope: hint: mcpscope help run\n"},
		{[]string{"run", "--eof-grace"}, exitOwnFailure, "mcpscope: run: flag --eof-grace needs a value\nmcpscope: hint: mcpscope help run\n"},
		{[]string{"run", "--eof-grace", "soon", "x"}, exitOwnFailure,
			"mcpscope: run: --eof-grace \"soon\": \"soon\" is no duration (like 1.2s, 500ms, 0 or infinity)\nmcpscope: hint: mcpscope help run\n"},
		{[]string{"run", "--backend", "magic", "x"}, exitOwnFailure,
			"mcpscope: run: --backend \"magic\": \"magic\" is none of auto, systemd-user, systemd-system, delegated, cgroup, tree\nmcpscope: hint: mcpscope help run\n"},
		{[]string{"run", "npx -y foo"}, exitNotFound,
			"mcpscope: cannot run \"npx -y foo\": no such file or directory\nmcpscope: hint: a command and its arguments are separate words: mcpscope run -- npx -y foo\n"},
		{[]string{"run", "--report", "fd:99", "true"}, exitOwnFailure,
			"mcpscope: cannot open the report: descriptor 99: bad file descriptor\nmcpscope: hint: --report takes a path or fd:N\n"},
		{[]string{"run", "-q", "nosuch"}, exitNotFound, ""},
	} {
		if s := say(c.args...); s.status != c.status || s.out != "" || s.err != c.want {
			t.Errorf("%q: status %d\n%s\nwant status %d\n%s", c.args, s.status, s.err+s.out, c.status, c.want)
		}
	}
}

func TestEnvironmentSetsFlags(t *testing.T) {
	t.Setenv("MCPSCOPE_TERM_GRACE", "7s")
	t.Setenv("MCPSCOPE_VERBOSE", "1")
	t.Setenv("MCPSCOPE_NAME", "")
	var f runFlags
	operands, _, err := f.parse([]string{"--term-grace", "3s", "cmd", "-v"})
	if err != nil || len(operands) != 2 || f.policy.TermGrace.Seconds() != 3 || !f.verbose || f.quiet || f.name != "" {
		t.Errorf("%+v, %q, %v", f, operands, err)
	}
	t.Setenv("MCPSCOPE_EOF_GRACE", "x")
	if _, _, err := f.parse([]string{"cmd"}); err == nil || !strings.HasPrefix(err.Error(), "MCPSCOPE_EOF_GRACE: ") {
		t.Errorf("a bad variable: %v", err)
	}
}

// Every flag has its variable, and every variable is taken out of the server's
// environment.
func TestVariables(t *testing.T) {
	var f runFlags
	for _, flag := range runFlagNames() {
		if flag != "--wrapped" && variables[strings.TrimLeft(flag, "-")] == "" {
			t.Errorf("%s has no variable", flag)
		}
		if !strings.Contains(runUsage, flag+" ") {
			t.Errorf("%s is not explained", flag)
		}
	}
	if n := len(runFlagNames()); n != len(variables)+1 {
		t.Errorf("%d flags, %d variables", n, len(variables))
	}
	f.set()
	cmd := exec.Command(os.Args[0], "-test.run=^TestPrintEnvironment$")
	cmd.Env = []string{"PRINT_ENVIRONMENT=1", "B=1", "MCPSCOPE_NAME=x", "MCPSCOPE_ID=y", "MCPSCOPE_OTHER=z", "nonsense", "A="}
	out, err := cmd.Output()
	if err != nil || !strings.HasPrefix(string(out), "PRINT_ENVIRONMENT=1|B=1|MCPSCOPE_OTHER=z|nonsense|A=\n") {
		t.Errorf("%q (%v)", out, err)
	}
}

// TestPrintEnvironment is a part of TestVariables that needs a process of its own.
func TestPrintEnvironment(t *testing.T) {
	if os.Getenv("PRINT_ENVIRONMENT") != "" {
		os.Stdout.WriteString(strings.Join(serverEnvironment(), "|") + "\n")
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

func TestOneLine(t *testing.T) {
	if got := oneLine("a\nb\x1b[31m\u0085ü"); got != "a?b?[31m?ü" {
		t.Errorf("%q", got)
	}
}

func TestHarmless(t *testing.T) {
	for word, want := range map[string]bool{"time": true, "k3x9w2ab": true, "a.b@c:d+e-f_1": true, "": false, "$(reboot)": false, "`a`": false, "a b": false, "-x": false, "ü": false, "a\nb": false} {
		if harmless(word) != want {
			t.Errorf("%q: %v", word, !want)
		}
	}
}
