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
		use: "units [flags]", short: "print or install units of systemd",
		examples: `  mcpscope units --install --now
  mcpscope units --unit hermes-gateway.service --install --now
`,
		long: `Prints units of systemd, with the path of this mcpscope in them:

  mcpscope-sweep.service, .timer   stop orphans, every five minutes
  mcpscope-metrics.service         figures for Prometheus, on 127.0.0.1:9500

With --unit a drop-in for the service of a gateway, which puts mcpscope gateway
before its command. The command is read from systemd; an unknown service is
refused.

The units are those of the system manager for root, and of your own manager for
all other users: /etc/systemd/system, ~/.config/systemd/user.`,
	}, func([]string) int { return f.Run(io) })
	fs := c.Flags()
	fs.StringVar(&f.Unit, "unit", "", "the drop-in of this gateway's service instead: `UNIT`")
	fs.BoolVar(&f.Install, "install", false, "write the files, but none over a file that was changed since")
	fs.BoolVar(&f.Remove, "remove", false, "remove the files, but none that was changed since")
	fs.BoolVar(&f.Now, "now", false, "also run the systemctl commands that it would print")
	return c
}
