// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
)

func TestDetachMistakes(t *testing.T) {
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", t.TempDir()) // of the tester, it may have directories that are not readable
	cannotRun := func(status int, command, reason string) said {
		return said{status: status, err: "mcpscope: cannot run \"" + command + "\": " + reason + "\n"}
	}
	checkSaid(t, map[string]said{
		"detach":                    usage("detach", "no command given"),
		"detach --":                 usage("detach", "no command given"),
		"detach --wait":             usage("detach", "unknown flag \"--wait\""),
		"detach /no/such -x":        cannotRun(cli.ExitNotFound, "/no/such", "no such file or directory"),
		"detach -- no-such-command": cannotRun(cli.ExitNotFound, "no-such-command", "no such file or directory"),
		"detach -- " + plain:        cannotRun(cli.ExitNotRunnable, plain, "permission denied"),
		"detach -- /":               cannotRun(cli.ExitNotRunnable, "/", "is a directory"),
	})
	words := cannotRun(cli.ExitNotFound, "no such", "no such file or directory")
	words.err += "mcpscope: hint: a command and its arguments are separate words: mcpscope run -- no such\n"
	if got := say("detach", "no such"); got != words {
		t.Errorf("%+v, want %+v", got, words)
	}
}

// A command does not start without a variable that its caller has.
func TestDetachWithAVariableThatIsNoText(t *testing.T) {
	t.Setenv("DIR", "/caf\xe9")
	s := say("detach", "--", "true")
	if s.status != cli.ExitFailure || s.out != "" || !strings.Contains(s.err, "DIR") {
		t.Errorf("%+v", s)
	}
}

func TestDetachWithoutManager(t *testing.T) {
	if systemd.Present(systemd.Own()) == nil {
		t.Skip("this host has a manager, which would start the command")
	}
	s := say("detach", "--", "true")
	const hint = "\nmcpscope: hint: run mcpscope doctor: detach needs a systemd manager\n"
	if s.status != cli.ExitFailure || s.out != "" || !strings.HasPrefix(s.err, "mcpscope: cannot start true outside of the server: ") ||
		!strings.HasSuffix(s.err, hint) {
		t.Errorf("%+v", s)
	}
}
