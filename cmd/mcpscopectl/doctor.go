// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"github.com/spf13/cobra"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/diagnose"
	"github.com/mcpscope/mcpscope/internal/show"
)

type doctorFlags struct{ json, selftest bool }

func doctorCommand(io cli.Stdio) *cobra.Command {
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

doctor also reports mistakes in settings files (mcpscope.toml), running gateways
and the number of leaked servers. It lists services and gateways whose servers
are not contained. For root these are the gateways of all users. It names limits
in settings files that this host cannot apply, and configured servers of clients
that run without mcpscope.

The exit status is 0 if a server gets its own control group. It is 1 if it does
not, if a gateway contains nothing, if a settings file has a mistake, or if the
selftest left a process. It is also 1 for a limit that cannot be applied, unless
limits is best-effort. It is 125 if doctor itself failed.`,
	}, func([]string) int { return f.run(io) })
	c.Flags().BoolVar(&f.selftest, "selftest", false,
		"also start six servers that ignore SIGTERM, stop them in three ways, "+
			"and check that no process is left")
	c.Flags().BoolVar(&f.json, "json", false, "print one JSON object")
	return c
}

func (f *doctorFlags) run(io cli.Stdio) int {
	by, err := diagnose.FindPrograms()
	if err != nil {
		io.Cannot("examine this host", err)
		return cli.ExitOwnFailure
	}
	d := diagnose.Diagnose(by)
	if !f.json {
		d.Print(io.Out) // before the selftest, which takes seconds
	}
	if f.selftest && d.Backend != "" {
		d.Selftest = diagnose.Selftest(by, d.Backend)
	}
	if f.json {
		_ = show.PrintJSON(io.Out, d, "  ") // cli.Output reports it
	} else {
		d.PrintSelftest(io.Out)
	}
	return d.Status()
}
