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
	freeze := changeAction("freeze", "frozen", "is frozen already", (*fleet.Listed).Freeze)
	return namedServersCommand(spec{
		use: "freeze NAME|ID… [flags]", short: "suspend servers",
		also: "pause suspend", examples: "  mcpscope freeze browser\n",
		long: `Freeze servers: none of their processes runs until mcpscope thaw. A client that
calls a frozen server waits. A frozen server is stopped by the same events as
a running server.`,
	}, freeze, stdio)
}

func thawCommand(stdio cli.Stdio) *cobra.Command {
	thaw := changeAction("thaw", "thawed", "is not frozen", (*fleet.Listed).Thaw)
	return namedServersCommand(spec{
		use: "thaw NAME|ID… [flags]", short: "resume suspended servers", also: "resume unfreeze",
		examples: "  mcpscope thaw browser\n",
		long: `Resume servers that were frozen by mcpscope freeze or by one of their own
processes.`,
	}, thaw, stdio)
}

// changeAction returns an action that prints "NAME (ID) UNCHANGED" for a server that it leaves as it is.
func changeAction(verb, past, unchanged string, do func(*fleet.Listed) (bool, error)) serverAction {
	return serverAction{verb: verb, do: func(s *fleet.Listed) ([]string, error) {
		isChange, err := do(s)
		switch {
		case err != nil:
			return nil, err
		case !isChange:
			return []string{nameAndID(s) + " " + unchanged}, nil
		}
		return []string{past + " " + nameAndID(s)}, nil
	}}
}

// namedServersCommand returns a command that acts on the servers in its operands.
func namedServersCommand(s spec, action serverAction, stdio cli.Stdio) *cobra.Command {
	s.operands = servers
	var f selection.Filter
	c := command(s, func(operands []string) int { return action.runOnNamed(&f, operands, stdio) })
	allUsers(c.Flags(), &f.AllUsers)
	return c
}
