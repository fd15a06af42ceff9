// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/selection"
	"github.com/mcpscope/mcpscope/internal/server/fleet"
	"github.com/mcpscope/mcpscope/internal/show"
)

type stopFlags struct {
	selection.Filter
	all, yes bool
	grace    time.Duration
}

func stopCommand(io cli.Stdio) *cobra.Command {
	var f stopFlags
	c := command(spec{
		use: "stop NAME|ID… | --all | --client PID|NAME", short: "stop servers",
		also: "rm remove kill end", operands: servers,
		examples: `  mcpscope stop git
  mcpscope stop --client hermes --grace 500ms
  mcpscope stop --project shop
  mcpscope stop --all --yes
`,
		long: `Stop servers: send SIGTERM to every member, wait for the grace period, and kill
the rest. The grace period is that of the server, but at most one minute.
Returns when no process is left, and prints one line per server. The beginning
of an ID is enough. With --all, it lists the servers and asks before it stops
them.

The exit status is 0 if all of them were stopped.`,
	}, func(operands []string) int { return f.run(operands, io) })
	f.grace = fleet.AsConfigured
	fs := c.Flags()
	fs.BoolVar(&f.all, "all", false, "all servers of the calling user")
	addFilter(c, &f.Filter)
	fs.Func("grace", "shorten the time from SIGTERM to SIGKILL to `D`; 0 kills at once",
		readBy(&f.grace, cli.ParseGrace))
	fs.BoolVar(&f.yes, "yes", false, "do not ask")
	return c
}

func (f *stopFlags) run(operands []string, io cli.Stdio) int {
	switch {
	case len(operands) == 0 && !f.all && !f.IsNarrow():
		return io.Mistake("stop", "no server given: add a name, an id, --all, --client or --project")
	case len(operands) > 0 && f.all:
		return io.Mistake("stop", "--all and server names exclude each other")
	}
	servers, err := f.Servers(operands)
	if err != nil {
		return io.Cannot("stop", err)
	}
	defer selection.Close(servers)
	if len(servers) == 0 && f.IsNarrow() { // it can be a typing error
		return io.CannotWithHint("stop", errors.New("there are "+f.None()), "mcpscope ls")
	}
	if len(servers) == 0 {
		io.None(f.None())
	} else if f.all && !f.yes {
		show.WriteServers(io.Out, show.MeasureAll(servers), f.AllUsers)
		if !io.Confirmed(fmt.Sprintf("Stop %s?", cli.Counted(len(servers), "server"))) {
			return io.Unconfirmed("stop", "mcpscope stop --all --yes")
		}
	}
	return selection.Each(servers, io, "stop", selection.Done("stopped", func(s *fleet.Listed) error {
		s.LogStop(selection.OwnCommand())
		return s.Stop(f.grace)
	}))
}
