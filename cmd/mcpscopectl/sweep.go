// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/scope"
)

type sweepFlags struct {
	scope.SweepFilter
	dryRun, json, escaped, yes bool
}

func sweepCommand(io cli.Stdio) *cobra.Command {
	var f sweepFlags
	c := command(spec{
		use: "sweep [flags]", short: "end orphans: servers whose supervisor is gone",
		examples: `  mcpscope sweep --dry-run
  mcpscope sweep --all-users --older-than 10m
`,
		long: `Ends orphans: groups of servers whose launcher and supervisor were both killed,
so that nobody is left to end them. A server that is in use, or being started, is
never touched. Prints what was ended, a line each. Every start of a server does the
same.`,
	}, func(operands []string) int { return f.run(io) })
	fs := c.Flags()
	allUsers(fs, &f.AllUsers)
	fs.BoolVar(&f.dryRun, "dry-run", false, "only say what would be ended")
	fs.Func("older-than", "only servers that were started longer ago than `D`, e.g. 10m", readBy(&f.OlderThan, scope.ParseGrace))
	fs.StringVar(&f.Unit, "unit", "", "only servers whose client was in that `UNIT`: for a unit's ExecStopPost=-mcpscope sweep --unit=%n")
	fs.BoolVar(&f.escaped, "escaped", false, "instead ask, and end what servers that have ended had systemd, at or another daemon start: see ls --escaped")
	fs.BoolVar(&f.yes, "yes", false, "with --escaped, do not ask")
	fs.BoolVar(&f.json, "json", false, "a line of JSON for each")
	return c
}

func (f *sweepFlags) run(io cli.Stdio) (status int) {
	switch {
	case f.escaped && f.Unit != "":
		return io.Mistake("sweep", "--escaped does not go with --unit")
	case f.yes && !f.escaped:
		return io.Mistake("sweep", "--yes is for --escaped: nobody asks about orphans")
	case f.escaped:
		return f.sweepEscaped(io)
	}
	find, what, goal := scope.Sweep, "ended", "sweep"
	if f.dryRun {
		find, what, goal = scope.Orphans, "would end", "look for orphans"
	}
	orphans, err := find(f.SweepFilter)
	if len(orphans) == 0 && err == nil && !f.json {
		sayNone(io.Out, "no orphans")
	}
	for _, s := range orphans {
		f.tell(s, what, io)
	}
	if err != nil {
		status = io.Cannot(goal, err)
	}
	if err != nil && !f.dryRun {
		io.Hint(cli.Hint(scope.Auto, err))
	}
	return status
}

// sweptVersion is that of the JSON, in which fields are only ever added.
const sweptVersion = 1

type sweptView struct {
	Version int `json:"version"`
	scope.Swept
}

// tell says what became of an orphan.
func (f *sweepFlags) tell(s scope.Swept, what string, io cli.Stdio) {
	switch {
	case f.json:
		_ = printJSON(io.Out, sweptView{sweptVersion, s}, "") // see cli.Output
	case s.Stuck != "":
		fmt.Fprintf(io.Err, "mcpscope: cannot end all of %q (%s): %s\n", cli.OneLine(s.Name), s.ID, cli.OneLine(s.Stuck))
	default:
		fmt.Fprintf(io.Out, "%s %s (%s)\n", what, cli.OneLine(s.Name), s.ID)
	}
}
