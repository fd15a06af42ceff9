// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"github.com/spf13/cobra"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/removal"
)

// removalCommand is for packages and make uninstall: a removal must not break a client.
func removalCommand(io cli.Stdio) *cobra.Command {
	var own bool
	c := command(spec{
		use: "removal", short: "list configurations and units that need mcpscope",
		long: `List the configurations and units that stop working without this mcpscope:
those of all users as root, otherwise your own. The exit status is 1 if there
are any.`,
	}, func([]string) int { return removal.Report(own, io) })
	c.Flags().BoolVar(&own, "own", false, "list only those of the calling user")
	c.Hidden = true
	return c
}
