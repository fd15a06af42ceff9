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
		use: "doctor [flags]", short: "say what this host offers, and what would be better",
		examples: `  mcpscope doctor
  mcpscope doctor --selftest
`,
		long: `Says what this host offers: which backend run takes, why each better one is not
available, and the command or drop-in that would make it so. It runs a short
server in each to find out, and leaves nothing behind. Run it as the user, and
in the unit or container, of the client. It also prints what is wrong with the
files of settings (mcpscope.toml), which gateways run, and how many servers are
leaked.

The exit status is 0 if a server gets a control group of its own, 1 if it does
not, if a file of settings has a mistake or a process is left, and 125 if doctor
itself failed.`,
	}, func([]string) int { return f.run(io) })
	c.Flags().BoolVar(&f.selftest, "selftest", false, "also start six servers that ignore SIGTERM, stop them in three ways, and see that no process is left")
	c.Flags().BoolVar(&f.json, "json", false, "one object")
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
