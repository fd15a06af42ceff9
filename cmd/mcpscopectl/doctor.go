// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/doctor"
	"github.com/mcpscope/mcpscope/internal/server/names"
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
		long: `Check which backend mcpscope run uses on this host, and why each better backend
is not available. Prints the command or drop-in that enables it. doctor runs
a short server with each backend and leaves nothing behind. Run it as the user
of the client, and in the client's unit or container.

doctor also reports mistakes in settings files (mcpscope.toml), tables there for
servers that are neither configured nor running, running gateways and the number
of leaked servers. It lists services and gateways whose servers are not
contained. For root, gateways and leaks are those of all users. It names limits
in settings files and in commands of wrapped servers that this host cannot
apply, configured servers of clients that run without mcpscope, and
configurations that cannot be read.

The exit status is 0 if a server gets its own control group. It is 1 if it does
not, if a gateway contains nothing or has an outdated drop-in, if a settings
file has a mistake, or if the selftest left a process. It is also 1 for a limit
that cannot be applied. It is 125 if doctor itself failed.`,
	}, func([]string) int { return f.run(stdio) })
	c.Flags().BoolVar(&f.selftest, "selftest", false,
		"also start six servers that ignore SIGTERM, stop them in three ways, "+
			"and check that no process is left")
	c.Flags().BoolVar(&f.json, "json", false, "print one JSON object")
	return c
}

func (f *doctorFlags) run(stdio cli.Stdio) int {
	programs, err := doctor.FindPrograms()
	if err != nil {
		stdio.Cannot("examine this host", err)
		return cli.ExitOwnFailure
	}
	facts := doctor.Collect(programs)
	return f.report(facts, stdio, func(b names.Backend) []doctor.TestCase {
		return doctor.Selftest(programs, b)
	})
}

// report prints the diagnosis, and returns the exit status.
func (f *doctorFlags) report(
	facts doctor.Facts, stdio cli.Stdio, selftest func(names.Backend) []doctor.TestCase,
) int {
	d := doctor.Judge(facts)
	if !f.json {
		fmt.Fprint(stdio.Out, d.Text()) // before the selftest, which takes seconds
	}
	if f.selftest && d.Backend != "" {
		d.Selftest = selftest(d.Backend)
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
