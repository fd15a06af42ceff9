// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
)

func TestLogsMistakes(t *testing.T) {
	checkSaid(t, map[string]said{
		"logs a b":  usage("logs", "only one name or id is possible; without it, logs prints all servers"),
		"logs -n x": usage("logs", "-n \"x\": it must be a number"),
	})
}

func TestLogsWithoutJournal(t *testing.T) {
	if systemd.JournalExists() {
		t.Skip("this host has a journal: logs would replace the test")
	}
	want := failure("print logs: there is no systemd journal here",
		"mcpscope run --report FILE writes the same facts, also in a container; or install systemd-journald and journalctl")
	checkSaid(t, map[string]said{"logs": want, "logs time": want, "logs -f --since 2h --json": want})
}

func TestLogsOfAnUnknownServer(t *testing.T) {
	if !systemd.JournalExists() {
		t.Skip("this host has no journal")
	}
	s := say("logs", "no-such-server") // or journalctl may not read the journal
	if s.status != cli.ExitFailure || s.out != "" || !strings.HasPrefix(s.err, "mcpscope: cannot print logs: ") {
		t.Errorf("%+v", s)
	}
}

// Each command that selects servers has the same flag for those of other users.
func TestAllUsersIsAFlagOfEachList(t *testing.T) {
	for _, command := range []string{"freeze", "inspect", "logs", "ls", "metrics", "set", "stop", "sweep", "thaw", "top"} {
		if s := say(command, "--all-users=maybe"); !strings.Contains(s.err, `--all-users "maybe"`) {
			t.Errorf("%s: %+v", command, s)
		}
	}
}

func TestSince(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	for text, want := range map[string]string{
		"2h": "@992800", "-2h": "@992800", "1d": "@913600", "today": "today", "2026-11-20 8:00": "2026-11-20 8:00", "": "",
	} {
		if got := since(text, now); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
