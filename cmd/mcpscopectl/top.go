// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"github.com/spf13/cobra"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/selection"
	"github.com/mcpscope/mcpscope/internal/show/top"
)

const topLong = `Shows the servers that run on a terminal, again and again.

Keys:
  up, down, k, j, PgUp, PgDn, Home, End
                     choose a server
  Enter              its details and processes; Escape goes back
  c m a n p          sort by CPU, memory, age, name, number of processes; r
                     reverses
  /                  show only those with a text in id, name, client, state or
                     backend; Escape shows all again
  f                  freeze the chosen server, or thaw it
  s, then y          stop it, as mcpscope stop does
  q, ^C              end

CPU% is the share of one CPU since the last refresh, two seconds ago.`

func topCommand(io cli.Stdio) *cobra.Command {
	var f selection.Filter
	c := command(spec{
		use: "top [flags]", short: "watch the servers that run",
		examples: `  mcpscope top
  sudo mcpscope top --all-users
`,
		long: topLong,
	}, func([]string) int { return top.Run(&f, io) })
	allUsers(c.Flags(), &f.AllUsers)
	return c
}
