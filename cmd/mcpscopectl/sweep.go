// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"github.com/spf13/cobra"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/leftover"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

func sweepCommand(io cli.Stdio) *cobra.Command {
	s := leftover.Sweep{LeakAge: leftover.LeakAge}
	c := command(spec{
		use: "sweep [flags]", short: "stop servers that are left: orphans and leaks",
		examples: `  mcpscope sweep
  mcpscope sweep --dry-run
  mcpscope sweep --all-users --older-than 10m --yes
`,
		long: `Stops orphans: groups of servers whose launcher and guard were both killed.
A server that is in use, or being started, is never touched. Every start of a
server does the same.

Then it lists leaks, and stops them after a question: processes of configured
servers that run outside any group, whose client exited more than ten seconds
ago. Their parent is the first process or a user manager, and the other ends of
stdin and stdout are closed. Without a terminal to ask on it looks for leaks
only with --yes, --dry-run or --json.`,
	}, func(operands []string) int { return s.Run(io) })
	fs := c.Flags()
	allUsers(fs, &s.AllUsers)
	fs.BoolVar(&s.DryRun, "dry-run", false, "only print what would be stopped")
	fs.BoolVar(&s.Yes, "yes", false, "stop leaks without a question")
	fs.Func("older-than", "only servers that were started longer ago than `D`, e.g. 10m", func(text string) (err error) {
		s.OlderThan, err = protocol.ParseGrace(text)
		s.LeakAge = s.OlderThan
		return err
	})
	fs.StringVar(&s.Unit, "unit", "", "only orphans whose client was in that `UNIT`: for a unit's ExecStopPost=-mcpscope sweep --unit=%n")
	fs.BoolVar(&s.JSON, "json", false, "a line of JSON for each")
	return c
}
