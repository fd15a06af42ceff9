// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/history"
)

func logsCommand(io cli.Stdio) *cobra.Command {
	var f history.Query
	c := command(spec{
		use: "logs [NAME|ID] [flags]", short: "print the history of servers, and their stderr",
		also:     "log journal events",
		operands: servers,
		examples: `  mcpscope logs --since 2h
  mcpscope logs git -n 50
  mcpscope logs -f git
  mcpscope logs --project shop
`,
		long: `Print journal entries about servers, the oldest first: started, frozen, thawed,
asked to stop, swept, and ended with the processes that were killed. With NAME
or ID, also print the stderr of a server that was started with --stderr journal.
NAME selects the running servers of that name, or else the one that ended last.
The beginning of an ID is enough while the server runs. "No journal files were
opened" means that you may not read the journal: sudo mcpscope logs.

mcpscope never waits for the journal: entries are lost while the journal is full
or does not respond. To write every end of a server to a file, use mcpscope run
--report. The journal drops empty lines and splits lines of more than 48 KiB
(LineMax= in journald.conf).`,
	}, func(operands []string) int {
		switch len(operands) {
		case 0:
			return f.Run("", io)
		case 1:
			return f.Run(operands[0], io)
		}
		return io.Mistake("logs", "only one name or id is possible; without it, logs prints all servers")
	})
	fs := c.Flags()
	fs.BoolVarP(&f.Follow, "follow", "f", false, "print the last ten entries, then new entries until ^C")
	fs.Func("since",
		"print entries since `TIME`: a duration ago (2h, 1d), "+
			"or a time for journalctl (today, \"2026-11-20 8:00\")",
		func(s string) error {
			f.Since = s
			if d, err := cli.ParseDuration(s); err == nil {
				f.Since = fmt.Sprintf("@%d", time.Now().Add(-d.Abs()).Unix())
			}
			return nil
		})
	fs.StringVar(&f.Project, "project", "", "only servers of the project `NAME`")
	fs.StringVar(&f.Session, "session", "", "only servers of the client's session `ID`")
	fs.StringVarP(&f.Lines, "lines", "n", "", "print only the last `N` entries")
	fs.BoolVar(&f.JSON, "json", false, "print the journal's JSON, one line per entry")
	return c
}
