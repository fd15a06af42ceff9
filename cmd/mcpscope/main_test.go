// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/gateway"
	"github.com/mcpscope/mcpscope/internal/settings"
	"github.com/mcpscope/mcpscope/test/message"
)

type said struct {
	status   int
	out, err string
}

func say(args ...string) said {
	var out, err bytes.Buffer
	status := run(args, cli.Stdio{Out: &out, Err: &err})
	return said{status, out.String(), err.String()}
}

// A mistake is one line, and at most one hint, on stderr.
func TestMistakes(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for _, c := range []struct {
		args              []string
		status            int
		begin, word, hint string
	}{
		{[]string{"run"}, cli.ExitOwnFailure, "run: ", "command", "mcpscope run -- COMMAND [ARG…]"},
		{[]string{"gateway", "--no-such-flag"}, cli.ExitOwnFailure, "gateway: ", "--no-such-flag", "mcpscope help gateway"},
		{[]string{"run", "--eof-grace"}, cli.ExitOwnFailure, "run: ", "--eof-grace", "mcpscope help run"},
		{[]string{"run", "--eof-grace", "soon", "x"}, cli.ExitOwnFailure, `run: --eof-grace "soon": `, "duration", "mcpscope help run"},
		{[]string{"run", "--backend", "magic", "x"}, cli.ExitOwnFailure, `run: --backend "magic": `, "systemd-system", "mcpscope help run"},
		{[]string{"run", "npx -y foo"}, cli.ExitNotFound, "cannot ", `"npx -y foo"`, "mcpscope run -- npx -y foo"},
		{[]string{"run", "--report", "fd:99", "/bin/true"}, cli.ExitOwnFailure, "cannot ", "descriptor 99", "fd:N"},
		{[]string{"gateway"}, cli.ExitOwnFailure, "gateway: ", "command", "mcpscope gateway -- COMMAND [ARG…]"},
		{[]string{"gateway", "nosuch"}, cli.ExitNotFound, "cannot ", `"nosuch"`, ""},
		{[]string{"gateway", "--explain", "fd:99", "/bin/true"}, cli.ExitOwnFailure, "cannot ", "descriptor 99", "fd:N"},
		{[]string{gateway.WatchCommand}, cli.ExitUsage, "watch ", "mcpscope gateway", ""},
		{[]string{"supervise"}, cli.ExitUsage, "supervise ", "itself", ""},
		{[]string{"supervise", "memory", "1"}, cli.ExitUsage, "supervise ", "itself", ""},
		{[]string{"supervise", "1", "socket"}, cli.ExitUsage, "supervise ", "itself", ""},
	} {
		want := message.Message{Status: c.status, Begin: c.begin, Word: c.word, Hint: c.hint}
		s := say(c.args...)
		if problem := want.Problem(s.status, s.out, s.err); problem != "" {
			t.Errorf("%q: %s", c.args, problem)
		}
	}
	if s := say("run", "-q", "nosuch"); s != (said{status: cli.ExitNotFound}) {
		t.Errorf("--quiet: %+v", s)
	}
}

// The watcher itself and each server of a gateway have the settings of files, where no flag is given.
func TestSettingsBelowAGateway(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mcpscope.toml")
	text := "[defaults]\nbackend = 'tree'\non-client-death = 'ignore'\n" +
		"term-grace = '2s'\neof-grace = '2s'\n[server.git]\nidle-timeout = '9h'\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(settings.FileVariable, file)
	for name, want := range map[string]string{
		"":    "tree eof-grace=1.2s term-grace=2s on-client-death=auto",
		"git": "tree eof-grace=1.2s term-grace=2s on-client-death=auto idle-timeout=9h0m0s",
	} {
		s := configureServer([]string{"--eof-grace=1.2s"}, name, "")
		if got := fmt.Sprint(s.Places.Backend, " ", s.Policy); got != want {
			t.Errorf("%q: %s, want %s", name, got, want)
		}
	}
}

// A gateway's rules are those of files, where no flag is given.
func TestRulesOfAGateway(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mcpscope.toml")
	text := "[defaults]\nmatch = ['a', 'b *']\nexcept = ['c']\nrequire = true\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(settings.FileVariable, file)
	for _, c := range []struct {
		flags []string
		want  string
	}{
		{nil, "[a b *] [c] true"},
		{[]string{"--match=d", "--match", "e"}, "[d e] [c] true"},
		{[]string{"--except", "", "--require=false"}, "[a b *] [] false"},
	} {
		var err bytes.Buffer
		g := gatewayRun{printer: cli.Printer{Stdio: cli.Stdio{Err: &err}}, values: settings.Defaults()}
		if _, _, err := g.values.Parse(settings.Gateway, c.flags); err != nil {
			t.Fatal(err)
		}
		o := g.options(c.flags)
		if got := fmt.Sprint(o.Match, " ", o.Except, " ", o.Require); got != c.want || err.Len() > 0 {
			t.Errorf("%q: %s, want %s: %s", c.flags, got, c.want, err.String())
		}
	}
}

// Without mcpscopectl a command names the missing program, the searched places, and the commands that work
// without it.
func TestAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "bin")
	program := filepath.Join(dir, "mcpscope")
	build(t, program)
	missing := dir + "/mcpscopectl"
	for _, c := range []struct {
		args   []string
		status int
		out    string // a word of stdout, or of stderr
		err    string
	}{
		{[]string{"ls"}, cli.ExitFailure, "", missing},
		{[]string{"gateway", "--check", "sh"}, cli.ExitOwnFailure, "", filepath.Dir(dir) + "/libexec/mcpscope/mcpscopectl"},
		{nil, cli.ExitOK, missing, ""},
		{[]string{"help"}, cli.ExitOK, missing, ""},
		{[]string{"version"}, cli.ExitOK, "mcpscope ", ""},
		{[]string{"help", "run"}, cli.ExitOK, "Usage: mcpscope run", ""},
	} {
		s := start(t, program, c.args...)
		if c.err != "" {
			want := message.Message{Status: c.status, Begin: "cannot ", Word: c.err, Hint: "mcpscope help and mcpscope version"}
			if problem := want.Problem(s.status, s.out, s.err); problem != "" {
				t.Errorf("%q: %s", c.args, problem)
			}
		} else if s.status != c.status || !strings.Contains(s.out, c.out) || s.err != "" {
			t.Errorf("%q: %+v", c.args, s)
		}
	}
	decoy := filepath.Join(t.TempDir(), "mcpscopectl")
	for _, file := range []string{decoy, filepath.Join(dir, "mcpscopectl")} {
		if err := os.WriteFile(file, []byte("#!/bin/sh\necho it is $0\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		t.Setenv("PATH", filepath.Dir(decoy)+":"+os.Getenv("PATH"))
		s := start(t, program, "ls")
		if file == decoy && s.status != cli.ExitFailure || file != decoy && s.out != "it is "+file+"\n" {
			t.Errorf("with %s: %+v", file, s)
		}
	}
}

// build builds the command, without the version that is in the repository.
func build(t *testing.T, program string) {
	t.Helper()
	cmd := exec.Command("go", "build", "-buildvcs=false", "-o", program, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // the race detector needs cgo
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// A program with cgo could start nothing: its build fails, with what to set.
func TestBuildWithCgo(t *testing.T) {
	if _, err := exec.LookPath("cc"); err != nil {
		t.Skip("no C compiler here: cgo is off")
	}
	cmd := exec.Command("go", "build", "-o", os.DevNull, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.HasSuffix(string(out), ": undefined: build_mcpscope_with_CGO_ENABLED_0\n") {
		t.Errorf("%v: %s", err, out)
	}
}

func start(t *testing.T, program string, args ...string) said {
	t.Helper()
	var out, err bytes.Buffer
	cmd := exec.Command(program, args...)
	cmd.Stdout = &out
	cmd.Stderr = &err
	if e := cmd.Run(); e != nil && !errors.As(e, new(*exec.ExitError)) {
		t.Fatal(e)
	}
	return said{cmd.ProcessState.ExitCode(), out.String(), err.String()}
}
