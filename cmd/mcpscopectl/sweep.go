// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"github.com/spf13/cobra"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/leftover"
)

func sweepCommand(io cli.Stdio) *cobra.Command {
	s := leftover.Sweep{LeakAge: leftover.LeakAge}
	c := command(spec{
		use: "sweep [flags]", short: "stop orphans and leaked servers", also: "clean cleanup gc prune leaks",
		examples: `  mcpscope sweep
  mcpscope sweep --dry-run
  mcpscope sweep --all-users --older-than 10m --yes
`,
		long: `Stop orphans: groups of servers whose launcher and guard were both killed.
Servers that are in use or starting are never touched. Each start of a server
does the same.

Then list leaks, and ask before stopping them. A leak is a process of
a configured server that runs outside any group, and whose client exited more
than ten seconds ago. Its parent is init or a user manager, and the other ends
of its stdin and stdout are closed. Without a terminal, mcpscope sweep searches
for leaks only with --yes, --dry-run or --json.`,
	}, func(operands []string) int { return s.Run(io) })
	fs := c.Flags()
	allUsers(fs, &s.AllUsers)
	fs.BoolVar(&s.DryRun, "dry-run", false, "list the servers that would be stopped, and stop none")
	fs.BoolVar(&s.Yes, "yes", false, "stop leaks without asking")
	fs.Func("older-than", "only leaks that started more than `D` ago, for example 10m",
		readBy(&s.LeakAge, cli.ParseGrace))
	fs.StringVar(&s.Unit, "unit", "",
		"only orphans whose client ran in `UNIT`; in a unit file: ExecStopPost=-mcpscope sweep --unit=%n")
	fs.BoolVar(&s.JSON, "json", false, "print one JSON object per line")
	return c
}
