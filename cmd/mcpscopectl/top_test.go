// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"testing"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/selection"
	"github.com/mcpscope/mcpscope/test/unprivileged"
)

func TestTopNeedsATerminal(t *testing.T) {
	checkSaid(t, map[string]said{
		"top":             failure("show servers: stdin or stdout is no terminal", "mcpscope ls"),
		"top --all-users": failure("show servers: stdin or stdout is no terminal", "mcpscope ls --all-users"),
	})
}

// The screen is not opened for a list that a user may not read.
func TestTopOfOtherUsers(t *testing.T) {
	unprivileged.Run(t, func(t *testing.T) {
		got := printed(func(stdio cli.Stdio) int { return openScreen(&selection.Selection{AllUsers: true}, stdio) })
		wantSaid(t, "top", got, failure("show servers: "+onlyRoot, ""))
	})
}
