// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"os/exec"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcpscope/mcpscope/internal/cli"
)

func versionCommand(io cli.Stdio) *cobra.Command {
	return command(spec{
		use: "version", short: "print the version",
		long: `Print the versions and build details of both programs: mcpscope runs next to
each server, mcpscopectl contains all other commands.`,
	}, func([]string) int {
		runner, built, err := runnerVersion()
		if err != nil {
			fmt.Fprintf(io.Out, "mcpscopectl %s (%s)\n", cli.Version(), cli.Built())
			return io.Cannot("read the version of mcpscope", err)
		}
		fmt.Fprintf(io.Out, "mcpscope %s (%s)\nmcpscopectl %s (%s)\n",
			runner, built, cli.Version(), cli.Built())
		if runner != cli.Version() {
			fmt.Fprint(io.Err, "mcpscope: note: the programs have different versions; "+
				"install both from the same release\n")
		}
		return cli.ExitOK
	})
}

// runnerVersion returns the version and the build details of mcpscope.
func runnerVersion() (version, built string, err error) {
	runner, err := cli.FindRunner()
	if err != nil {
		return "", "", err
	}
	out, err := exec.Command(runner, cli.OwnCommand).Output()
	if err != nil {
		return "", "", fmt.Errorf("%s: %w", runner, err)
	}
	version, built, _ = strings.Cut(strings.TrimSpace(string(out)), "\n")
	return version, built, nil
}
