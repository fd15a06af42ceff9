// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"os/exec"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/programs"
)

func versionCommand(stdio cli.Stdio) *cobra.Command {
	return command(spec{
		use: "version", short: "print the version",
		long: `Print the versions and build details of both programs: mcpscope runs next to
each server, mcpscopectl contains all other commands.`,
	}, func([]string) int {
		tool := programVersion{version: programs.Version(), built: programs.Built()}
		runner, err := runnerVersion()
		if err != nil {
			fmt.Fprintf(stdio.Out, "mcpscopectl %s\n", tool)
			return stdio.Cannot("read the version of mcpscope", err)
		}
		fmt.Fprintf(stdio.Out, "mcpscope %s\nmcpscopectl %s\n", runner, tool)
		if runner.version != tool.version {
			stdio.Note("the programs have different versions; install both from the same release")
		}
		return cli.ExitOK
	})
}

// programVersion is the version of one of the two programs.
type programVersion struct {
	version string
	built   string // build details
}

// String returns the version with the build details.
func (v programVersion) String() string { return fmt.Sprintf("%s (%s)", v.version, v.built) }

// runnerVersion runs mcpscope, which prints its version.
func runnerVersion() (programVersion, error) {
	runner, err := programs.FindRunner()
	if err != nil {
		return programVersion{}, err
	}
	out, err := exec.Command(runner, programs.OwnCommand).Output()
	if err != nil {
		return programVersion{}, fmt.Errorf("%s: %w", runner, err)
	}
	version, built, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	if version == "" {
		return programVersion{}, fmt.Errorf("%s prints no version", runner)
	}
	return programVersion{version: version, built: built}, nil
}
