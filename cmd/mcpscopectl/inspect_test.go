// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"testing"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/selection"
)

// A hint repeats no word that a shell would not take as it is.
func TestInspectMistakes(t *testing.T) {
	checkSaid(t, map[string]said{
		"inspect":                       usage("inspect", "no server given: add a name or an id"),
		"inspect --json":                usage("inspect", "no server given: add a name or an id"),
		"inspect no-such-server":        failure(`inspect: there is no server "no-such-server"`, "mcpscope logs no-such-server, if it has ended"),
		"inspect --json no-such-server": failure(`inspect: there is no server "no-such-server"`, "mcpscope logs no-such-server, if it has ended"),
		"inspect $(reboot)":             failure(`inspect: there is no server "$(reboot)"`, ""),
	})
}

// A server that has ended since it was chosen is answered like one that is not there.
func TestInspectOfServersThatHaveJustEnded(t *testing.T) {
	for _, f := range []inspectFlags{{}, {json: true}} {
		f.servers.Names = []string{"time"}
		got := printed(func(stdio cli.Stdio) int {
			return f.print(&selection.Found{}, stdio)
		})
		wantSaid(t, "no server", got, failure(`inspect: there is no server "time"`, ""))
	}
}
