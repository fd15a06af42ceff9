// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/doctor"
	"github.com/mcpscope/mcpscope/internal/programs"
)

type doctorFlags struct {
	json     bool
	selftest bool
}

func doctorCommand(stdio cli.Stdio) *cobra.Command {
	var f doctorFlags
	c := command(spec{
		use: "doctor [flags]", short: "check this host and suggest improvements", also: "check",
		examples: `  mcpscope doctor
  mcpscope doctor --selftest
`,
		long: `Say what mcpscope can do for servers on this host, and what is missing, with the
command or drop-in that helps. Run it as your client's user, in the client's
unit or container. doctor starts nothing; --selftest starts servers, to see that
they end.

It also lists running gateways, gateways and services whose servers are not
contained, mistakes and unused sections in mcpscope.toml, limits that cannot be
applied here, configured servers and agents that run without mcpscope,
configurations that cannot be read, and the number of leaks: for root, those of
all users.

The exit status is 0 if servers get a cgroup of their own and nothing has to be
repaired, otherwise 1. It is 125 if doctor itself failed.`,
	}, func([]string) int { return f.run(stdio) })
	c.Flags().BoolVar(&f.selftest, "selftest", false,
		"also start six servers that ignore SIGTERM, stop them in three ways, "+
			"and check that no process is left")
	c.Flags().BoolVar(&f.json, "json", false, "print one JSON object")
	return c
}

func (f *doctorFlags) run(stdio cli.Stdio) int {
	d := doctor.Examine()
	return f.report(d, stdio, func() ([]doctor.TestCase, error) {
		runner, err := programs.FindRunner()
		if err != nil {
			return nil, err
		}
		return doctor.Selftest(runner, d.Backend), nil
	})
}

// report prints the diagnosis, and returns the exit status.
func (f *doctorFlags) report(
	d *doctor.Diagnosis, stdio cli.Stdio, selftest func() ([]doctor.TestCase, error),
) int {
	if !f.json {
		fmt.Fprint(stdio.Out, d.Text()) // before the selftest, which takes seconds
	}
	if f.selftest && d.Backend != "" {
		cases, err := selftest()
		if err != nil {
			stdio.Cannot("test this host", err)
			return cli.ExitOwnFailure
		}
		d.Selftest = cases
	}
	status := cli.ExitOK
	if !d.IsHealthy() {
		status = cli.ExitFailure
	}
	if f.json {
		return max(status, printJSON(stdio, "print the diagnosis", d))
	}
	fmt.Fprint(stdio.Out, d.SelftestText())
	return status
}
