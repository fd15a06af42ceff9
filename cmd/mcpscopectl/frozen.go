// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"github.com/spf13/cobra"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/selection"
	"github.com/mcpscope/mcpscope/internal/server/fleet"
)

func freezeCommand(stdio cli.Stdio) *cobra.Command {
	const past, unchanged = "frozen", "is frozen already"
	freeze := serverAction{
		verb:      "freeze",
		do:        change(past, unchanged, nameAndID, (*fleet.Listed).Freeze),
		doSession: change(past, unchanged, sessionAndID, (*fleet.Session).Freeze),
	}
	return namedServersCommand(spec{
		use: "freeze NAME|ID… [flags]", short: "suspend servers",
		also: "pause suspend", examples: "  mcpscope freeze browser\n",
		long: `Freeze servers: none of their processes runs until mcpscope thaw. A client that
calls a frozen server waits. A frozen server is stopped by the same events as
a running server.

The name or id of a session freezes its agent and all its servers. A process
of a server or session cannot freeze it: use another terminal.`,
	}, freeze, stdio)
}

func thawCommand(stdio cli.Stdio) *cobra.Command {
	const past, unchanged = "thawed", "is not frozen"
	thaw := serverAction{
		verb:      "thaw",
		do:        change(past, unchanged, nameAndID, (*fleet.Listed).Thaw),
		doSession: change(past, unchanged, sessionAndID, (*fleet.Session).Thaw),
	}
	return namedServersCommand(spec{
		use: "thaw NAME|ID… [flags]", short: "resume suspended servers", also: "resume unfreeze",
		examples: "  mcpscope thaw browser\n",
		long: `Resume servers that were frozen by mcpscope freeze or by one of their own
processes, or a whole session.`,
	}, thaw, stdio)
}

// change returns a function that prints "PAST NAME (ID)", or "NAME (ID) UNCHANGED" for a target that it
// leaves as it is.
func change[T any](
	past, unchanged string, called func(T) string, do func(T) (bool, error),
) func(T) ([]string, error) {
	return func(target T) ([]string, error) {
		isChange, err := do(target)
		switch {
		case err != nil:
			return nil, err
		case !isChange:
			return []string{called(target) + " " + unchanged}, nil
		}
		return []string{past + " " + called(target)}, nil
	}
}

// namedServersCommand returns a command that acts on the servers in its operands.
func namedServersCommand(s spec, action serverAction, stdio cli.Stdio) *cobra.Command {
	s.operands = serversAndSessions
	var f selection.Selection
	c := command(s, func(operands []string) int {
		f.Names = operands
		return action.runOnNamed(&f, stdio)
	})
	allUsers(c.Flags(), &f)
	return c
}
