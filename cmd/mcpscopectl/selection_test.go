// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/server/fleet"
)

// parsed sets the flags of a command of its own by a line, without running it.
func parsed(t *testing.T, c *cobra.Command, line string) (operands []string) {
	t.Helper()
	root := &cobra.Command{Use: "mcpscope"}
	root.AddCommand(c)
	_, words, err := setFlags(root, strings.Fields(line))
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return words[2:] // after the command and "--"
}

// A hint of a command that asks means the servers that the question was about, and none besides: a person
// pastes it.
func TestHintsRepeatTheFilters(t *testing.T) {
	for line, want := range map[string]string{
		"stop --all":                              "mcpscope stop --all --yes",
		"stop --all --project p1":                 "mcpscope stop --all --project p1 --yes",
		"stop --all --client a --conversation 8a": "mcpscope stop --all --client a --conversation 8a --yes",
		"stop --all-users --grace 5s --all":       "mcpscope stop --all --all-users --grace 5s --yes",
		"stop --client a --project p1":            "mcpscope stop --client a --project p1 --yes, or those of one client: --client PID",
	} {
		var f stopFlags
		c := stopCommandOf(&f, cli.Stdio{})
		f.servers.Names = parsed(t, c, line)
		servers := []*fleet.Listed{serverCalled("x", "aaaaaaaa"), serverCalled("y", "bbbbbbbb")}
		servers[0].Facts.Client.PID = 7 // two clients
		got := printed(func(stdio cli.Stdio) int { return f.ask(servers, stdio) })
		if got.status != cli.ExitFailure || !strings.HasSuffix(got.err, "mcpscope: hint: "+want+"\n") {
			t.Errorf("%s: %+v\nwant %s", line, got, want)
		}
	}
	for line, want := range map[string]string{
		"sweep":                              "mcpscope sweep --yes",
		"sweep --all-users":                  "mcpscope sweep --all-users --yes",
		"sweep --older-than 10m --all-users": "mcpscope sweep --all-users --older-than 10m0s --yes",
		"sweep --older-than 10s":             "mcpscope sweep --older-than 10s --yes",
	} {
		var f sweepFlags
		parsed(t, sweepCommandOf(&f, cli.Stdio{}), line)
		if got := f.line("--yes"); got != want {
			t.Errorf("%s: %s\nwant %s", line, got, want)
		}
	}
	checkSaid(t, map[string]said{
		"top --client a --project p --conversation 8a": failure("show servers: stdin or stdout is no terminal",
			"mcpscope ls --client a --project p --conversation 8a"),
		"stop --project no-such-project": failure("stop: there are no servers of the project no-such-project", "mcpscope ls"),
		"stop no-such-server --project p --client c": failure(
			`stop: there is no server "no-such-server" of the client c of the project p`, ""),
	})
}

// A script whose variable is empty does not mean all servers.
func TestEmptyFilters(t *testing.T) {
	for command, flags := range map[string][]string{
		"stop": {"client", "project", "conversation"}, "ls": {"client", "project", "conversation"},
		"top": {"client", "project", "conversation"}, "logs": {"project", "conversation"}, "sweep": {"unit"},
	} {
		for _, flag := range flags {
			got := say(command, "--"+flag, "")
			want := usage(command, "--"+flag+` "": it must not be empty`)
			if got != want {
				t.Errorf("%s --%s: %+v\nwant %+v", command, flag, got, want)
			}
		}
	}
}

// Each flag that a hint can have is one of the command that the hint is about.
func TestHintsAreCommandLines(t *testing.T) {
	for _, line := range []string{
		"stop --all --all-users --client a --project p --conversation 8a --grace 5s --yes",
		"sweep --all-users --unit u --older-than 10m0s --yes",
		"ls --all-users --client a --project p --conversation 8a",
		"logs git --all-users --project p --conversation 8a",
		"metrics --all-users",
	} {
		if _, _, err := setFlags(newRoot(cli.Stdio{}), strings.Fields(line)); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
}
