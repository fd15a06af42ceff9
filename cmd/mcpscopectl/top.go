// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/render/top"
	"github.com/mcpscope/mcpscope/internal/selection"
	"github.com/mcpscope/mcpscope/internal/server/fleet"
)

const topLong = `Show the running servers in the terminal, refreshed every two seconds.

Keys:
  up, down, k, j, PgUp, PgDn, Home, End
                     select a server
  Enter              show details and processes; Escape returns
  c m a n p          sort by CPU, memory, age, name or processes
  /                  filter by id, name, client, project, state or backend;
                     Escape removes the filter
  f                  freeze or thaw the selected server
  s, then y          stop the selected server, as mcpscope stop does
  q, ^C              quit

CPU% is the share of one CPU since the last refresh.`

func topCommand(stdio cli.Stdio) *cobra.Command {
	var f selection.Filter
	c := command(spec{
		use: "top [flags]", short: "watch the running servers", also: "stats",
		examples: `  mcpscope top
  sudo mcpscope top --all-users
`,
		long: topLong,
	}, func([]string) int { return runTop(&f, stdio) })
	addFilter(c, &f)
	return c
}

func runTop(f *selection.Filter, stdio cli.Stdio) int {
	if !stdio.CanAsk() {
		err := errors.New("stdin or stdout is no terminal")
		return stdio.CannotWithHint("show servers", err, "mcpscope ls")
	}
	screen, err := top.New(top.Options{
		Servers: f,
		Note:    strings.Join(uncovered(), "; "),
		Stop:    func(s *fleet.Listed) error { return stopServer(s, fleet.AsConfigured) },
	})
	if err != nil {
		return stdio.Cannot("list servers", err)
	}
	if err := screen.Run(); err != nil {
		return stdio.Cannot("show servers", err)
	}
	return cli.ExitOK
}
