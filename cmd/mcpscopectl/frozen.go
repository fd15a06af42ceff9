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
		use: "freeze NAME|ID… [flags]", short: "suspend servers", examples: "  mcpscope freeze browser\n",
		long: `Freezes servers: none of their processes runs until mcpscope thaw. A client
waits for them meanwhile. Whatever ends a server ends a frozen one as well.`,
	}, "frozen", (*fleet.Listed).Freeze)
}

func thawCommand(io cli.Stdio) *cobra.Command {
	return named(io, spec{
		use: "thaw NAME|ID… [flags]", short: "resume suspended servers", examples: "  mcpscope thaw browser\n",
		long: `Resumes servers that mcpscope freeze, or one of their own processes, has frozen.`,
	}, "thawed", (*fleet.Listed).Thaw)
}

// named is a command that does one thing to the servers that are named.
func named(io cli.Stdio, s spec, past string, do func(*fleet.Listed) error) *cobra.Command {
	var f selection.Filter
	s.operands = servers
	verb, _, _ := strings.Cut(s.use, " ")
	c := command(s, func(operands []string) int { return f.Do(operands, io, verb, selection.Done(past, do)) })
	return c
}
