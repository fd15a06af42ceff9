// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/logs"
)

func logsCommand(stdio cli.Stdio) *cobra.Command {
	var q logs.Query
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
The beginning of an ID is enough while the server runs.

mcpscope never waits for the journal: entries are lost while the journal is full
or does not respond. To write every end of a server to a file, use mcpscope run
--report. The journal drops empty lines and splits lines of more than 48 KiB
(LineMax= in journald.conf).`,
	}, func(operands []string) int {
		q.Servers.Names = operands
		return printLogs(&q, stdio)
	})
	fs := c.Flags()
	allUsers(fs, &q.Servers)
	fs.BoolVarP(&q.Follow, "follow", "f", false, "print the last ten entries, then new entries until ^C")
	fs.Func("since",
		"print entries since `TIME`: a duration ago (2h, 1d), "+
			"or a time for journalctl (today, \"2026-11-20 8:00\")",
		func(text string) error {
			q.Since = since(text, time.Now())
			return nil
		})
	addOrigin(fs, &q.Servers)
	fs.FuncP("lines", "n", "print only the last `N` entries", func(text string) error {
		if _, err := strconv.ParseUint(text, 10, 31); err != nil {
			return errors.New("it must be a number")
		}
		q.Lines = text
		return nil
	})
	fs.BoolVar(&q.JSON, "json", false, "print the journal's JSON, one line per entry")
	return c
}

// since returns a time for journalctl, which knows no duration.
func since(text string, now time.Time) string {
	d, err := cli.ParseDuration(text)
	if err != nil {
		return text
	}
	return fmt.Sprintf("@%d", now.Add(-d.Abs()).Unix())
}

// printLogs becomes journalctl, unless there is a mistake.
func printLogs(q *logs.Query, stdio cli.Stdio) int {
	if len(q.Servers.Names) > 1 {
		return stdio.Mistake("logs", "only one name or id is possible; without it, logs prints all servers")
	}
	err := q.Servers.Users().CheckVisible()
	if err == nil {
		err = becomeLogs(q, stdio)
	}
	return stdio.Cannot("print logs", err)
}

// becomeLogs executes journalctl instead of this program. It returns only if it cannot.
func becomeLogs(q *logs.Query, stdio cli.Stdio) error {
	journal, err := logs.Open()
	if err != nil {
		return err
	}
	entries, err := journal.Entries(q)
	if err != nil {
		return err
	}
	found, err := entries.Any()
	if err != nil {
		return err
	}
	if !found && cli.OnTerminal(stdio.Out) {
		stdio.Note("no entries yet")
	}
	if len(q.Servers.Names) == 0 {
		noteOthers(&q.Servers, stdio, "logs")
	}
	return entries.Become()
}
