// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"github.com/spf13/cobra"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/settings"
	"github.com/mcpscope/mcpscope/internal/units"
)

func unitsCommand(io cli.Stdio) *cobra.Command {
	var f units.Request
	c := command(spec{
		use: "units [flags]", short: "print or install systemd units",
		examples: `  mcpscope units --install --now
  mcpscope units --unit hermes-gateway.service --install --now
  mcpscope units --unit my-gateway --match 'python my.py' --install --now
`,
		long: `Print systemd units that contain the path of this mcpscope:

  mcpscope-sweep.service, .timer   stop orphans every five minutes
  mcpscope-metrics.service         metrics for Prometheus, on 127.0.0.1:9500

With --unit, print a drop-in for the service of a gateway instead. It inserts
mcpscope gateway before the service's command, which is read from systemd. The
service must exist. Flags of mcpscope gateway, such as --match GLOB, --except
GLOB and --memory-max SIZE, are written before the command. An --install with
flags replaces those of the drop-in, one without flags keeps them. --remove
clears them.

The units of root are for the system manager (/etc/systemd/system), those of
other users for their own manager (~/.config/systemd/user).`,
	}, func([]string) int { return f.Run(io) })
	fs := c.Flags()
	c.PreRun = func(*cobra.Command, []string) { f.Gateway = fs.Changed("unit") }
	fs.StringVar(&f.Unit, "unit", "", "print the drop-in for gateway service `UNIT`")
	fs.BoolVar(&f.Install, "install", false, "write the files; an edited file is kept")
	fs.BoolVar(&f.Remove, "remove", false, "remove the files; an edited file is kept")
	fs.BoolVar(&f.Now, "now", false, "run the systemctl commands instead of printing them")
	for _, row := range settings.Rows(settings.Gateway) {
		if row.Name == "explain" || row.Name == "check" { // for one run
			continue
		}
		flag := fs.VarPF(&gatewayFlag{row, &f.GatewayFlags}, row.Name, row.Short, row.Help)
		flag.Hidden = true // mcpscope help gateway has them
		if row.Switch() {
			flag.NoOptDefVal = "true"
		}
	}
	return c
}

// gatewayFlag is a flag of mcpscope gateway that goes into the drop-in. All are collected in their order.
type gatewayFlag struct {
	row   *settings.Row
	flags *[]string
}

func (g *gatewayFlag) Set(value string) error {
	*g.flags = append(*g.flags, settings.Dashes(g.row.Name)+"="+value)
	return nil
}

func (g *gatewayFlag) String() string { return "" }

func (g *gatewayFlag) Type() string { return g.row.Arg }
