// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"github.com/spf13/cobra"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/units"
)

func unitsCommand(io cli.Stdio) *cobra.Command {
	var f units.Request
	c := command(spec{
		use: "units [NAME…] [flags]", short: "print or install units of systemd", operands: unitOperands,
		examples: `  mcpscope units --install
  mcpscope units gateway --unit hermes-gateway.service --install --now
`,
		long: `Prints units of systemd, with the path of this mcpscope in them; all, or those that
are named:

  mcpscope-sweep.service, .timer   end orphans, every five minutes
  mcpscope-metrics.service         figures for Prometheus, on 127.0.0.1:9500
  mcp.slice                        where servers are, with limits for all of
                                   them to fill in
  mcp-server@.service              for a server that systemd itself runs
  gateway                          a drop-in for the service of a gateway, UNIT,
                                   that puts mcpscope gateway before its command

Of the gateway's unit the manager is asked; one that it does not know is refused.`,
	}, func(operands []string) int { return f.Run(operands, io) })
	fs := c.Flags()
	fs.BoolVar(&f.System, "system", false, "for the system manager (default for root), in /etc/systemd/system")
	fs.BoolVar(&f.User, "user", false, "for your own manager (default for others), in ~/.config/systemd/user")
	fs.BoolVar(&f.Install, "install", false, "write them there, but none over a file that was changed since")
	fs.BoolVar(&f.Remove, "remove", false, "remove them there, but none that was changed since")
	fs.BoolVar(&f.Now, "now", false, "and enter what it says to enter then")
	fs.BoolVar(&f.Force, "force", false, "also those that were changed")
	fs.StringVar(&f.Unit, "unit", "", "the service of the gateway: `UNIT`")
	return c
}
