// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/history"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

func logsCommand(io cli.Stdio) *cobra.Command {
	var f history.Query
	c := command(spec{
		use: "logs [NAME|ID] [flags]", short: "print what happened to servers, and what they wrote to stderr", operands: servers,
		examples: `  mcpscope logs --since 2h
  mcpscope logs git -n 50
  mcpscope logs -f git
`,
		long: `Prints the entries of systemd's journal about servers, the oldest first:
started, ended, killed, out of memory, frozen, thawed, asked to stop, swept,
notes. Of one server also its stderr, if it was started with --stderr journal,
by mcpscope run or below mcpscope gateway. A name means the servers of that name
that run, or the newest one that has ended. ID may be the beginning of one if
that server runs.

mcpscope writes entries where there is a journal, and never waits for it:
entries are lost when it is full or hangs. mcpscope run --report writes every
end to a file. The journal drops empty lines and cuts those of more than 48 KiB
(journald.conf, LineMax=).`,
	}, func(operands []string) int {
		switch len(operands) {
		case 0:
			return f.Run("", io)
		case 1:
			return f.Run(operands[0], io)
		}
		return io.Mistake("logs", "one server at most: give one name or id, or none for all")
	})
	fs := c.Flags()
	fs.BoolVarP(&f.Follow, "follow", "f", false, "print new entries until ^C, after the last ten")
	fs.Func("since", "entries from then on: a duration ago (2h, 1d), or what journalctl takes (today, \"2026-11-20 8:00\"): `TIME`",
		func(s string) error {
			f.Since = s
			if d, err := protocol.ParseDuration(s); err == nil {
				f.Since = fmt.Sprintf("@%d", time.Now().Add(-d.Abs()).Unix())
			}
			return nil
		})
	fs.StringVarP(&f.Lines, "lines", "n", "", "the last `N` entries only")
	fs.BoolVar(&f.JSON, "json", false, "the JSON of journalctl, a line for each entry")
	return c
}
