// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/diagnose"
)

func versionCommand(io cli.Stdio) *cobra.Command {
	return command(spec{
		use: "version", short: "print the version",
		long: `Prints the versions of the two programs, and what they were built from and with:
mcpscope, which stands beside each server, and mcpscopectl, which has all other
commands.`,
	}, func([]string) int {
		runner, built, err := diagnose.RunnerVersion()
		if err != nil {
			fmt.Fprintf(io.Out, "mcpscopectl %s (%s)\n", diagnose.OwnVersion(), cli.Built())
			return io.Cannot("tell the version of mcpscope", err)
		}
		fmt.Fprintf(io.Out, "mcpscope %s (%s)\nmcpscopectl %s (%s)\n", runner, built, diagnose.OwnVersion(), cli.Built())
		if runner != diagnose.OwnVersion() {
			fmt.Fprint(io.Err, "mcpscope: note: the two programs are of different versions; install both of one\n")
		}
		return cli.ExitOK
	})
}
