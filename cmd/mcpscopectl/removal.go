// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/programs"
	"github.com/mcpscope/mcpscope/internal/removal"
)

// removalCommand returns mcpscope removal, which packages and make uninstall use: a removal must not break
// a client.
func removalCommand(stdio cli.Stdio) *cobra.Command {
	var onlyOwn bool
	c := command(spec{
		use: "removal", short: "list configurations, units and agents that need mcpscope",
		long: `List the configurations and units that stop working without this mcpscope, and
the agents and gateways that run below it: those of all users as root, otherwise
your own. The exit status is 1 if there are any.`,
	}, func([]string) int { return printUses(stdio, onlyOwn) })
	c.Flags().BoolVar(&onlyOwn, "own", false, "list only those of the calling user")
	c.Hidden = true
	return c
}

func printUses(stdio cli.Stdio, onlyOwn bool) int {
	runner, err := programs.FindRunner()
	if err != nil {
		return stdio.Cannot("find mcpscope", err)
	}
	report, err := removal.Find(runner, onlyOwn)
	for _, line := range report.Lines() {
		fmt.Fprintln(stdio.Out, cli.OneLine(line))
	}
	if err != nil {
		return stdio.Cannot("search all configurations and units", err)
	}
	if len(report.Uses) > 0 {
		return cli.ExitFailure
	}
	return cli.ExitOK
}
