// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/selection"
	"github.com/mcpscope/mcpscope/internal/server/fleet"
)

func freezeCommand(io cli.Stdio) *cobra.Command {
	return named(io, spec{
		use: "freeze NAME|ID… [flags]", short: "suspend servers",
		also: "pause suspend", examples: "  mcpscope freeze browser\n",
		long: `Freeze servers: none of their processes runs until mcpscope thaw. A client that
calls a frozen server waits. A frozen server is stopped by the same events as
a running server.`,
	}, "frozen", (*fleet.Listed).Freeze)
}

func thawCommand(io cli.Stdio) *cobra.Command {
	return named(io, spec{
		use: "thaw NAME|ID… [flags]", short: "resume suspended servers", also: "resume unfreeze",
		examples: "  mcpscope thaw browser\n",
		long: `Resume servers that were frozen by mcpscope freeze or by one of their own
processes.`,
	}, "thawed", (*fleet.Listed).Thaw)
}

// named returns a command that calls do for each server in its operands.
func named(io cli.Stdio, s spec, past string, do func(*fleet.Listed) error) *cobra.Command {
	var f selection.Filter
	s.operands = servers
	verb, _, _ := strings.Cut(s.use, " ")
	c := command(s, func(operands []string) int { return f.Do(operands, io, verb, selection.Done(past, do)) })
	return c
}
