// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/selection"
)

func TestStopMistakes(t *testing.T) {
	checkSaid(t, map[string]said{
		"stop":            usage("stop", "no server given: add a name, an id, --all, --client or --project"),
		"stop --yes":      usage("stop", "no server given: add a name, an id, --all, --client or --project"),
		"stop time --all": usage("stop", "--all and server names exclude each other"),
		"stop --grace soon x": usage("stop", `--grace "soon": `+
			`"soon" is no duration (like 1.2s, 500ms, 1d, 0 or infinity)`),
		"stop no-such-server": failure(`stop: there is no server "no-such-server"`, ""),
		"stop --client no-such-client": failure(
			"stop: there are no servers of the client no-such-client", "mcpscope ls"),
		"stop --project no-such-project --conversation 0": failure(
			"stop: there are no servers of the project no-such-project of the conversation 0", "mcpscope ls"),
	})
}

// Without a terminal and without --yes, no server is stopped.
func TestStopAllAsks(t *testing.T) {
	s := say("stop", "--all")
	if s.out == "" { // this host has no server
		isNote := strings.HasPrefix(s.err, "mcpscope: note: ") // root reads that others have servers
		if s.status != cli.ExitOK || s.err != "" && !isNote {
			t.Errorf("without servers: %+v", s)
		}
		return
	}
	want := failure("stop: not confirmed", "mcpscope stop --all --yes")
	if s.status != want.status || s.err != want.err {
		t.Errorf("%+v", s)
	}
}

// Servers that could not be listed may live on: it is a failure that they are missing.
func TestStopWithUnlistedServers(t *testing.T) {
	unlisted := errors.New("read g: permission denied")
	want := failure("stop all servers: read g: permission denied", "")
	var f stopFlags
	none := printed(func(stdio cli.Stdio) int { return f.stopNone(unlisted, stdio) })
	none.err = othersNote.ReplaceAllString(none.err, "")
	wantSaid(t, "none listed", none, want)
	some := printed(func(stdio cli.Stdio) int {
		return f.stop(&selection.Found{Unlisted: unlisted}, stdio)
	})
	wantSaid(t, "some listed", some, want)
}

// othersNote is printed to root on a host where other users have servers.
var othersNote = regexp.MustCompile(`(?m)^mcpscope: note: .* of other users: .*\n`)
