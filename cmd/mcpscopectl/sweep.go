// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/leftover"
	"github.com/mcpscope/mcpscope/internal/selection"
	"github.com/mcpscope/mcpscope/internal/server/fleet"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/server/sweep"
	"github.com/mcpscope/mcpscope/internal/show"
)

type sweepFlags struct {
	sweep.SweepFilter
	leakAge           time.Duration
	dryRun, json, yes bool
}

func sweepCommand(io cli.Stdio) *cobra.Command {
	f := sweepFlags{leakAge: leftover.LeakAge}
	c := command(spec{
		use: "sweep [flags]", short: "stop servers that are left: orphans and leaks",
		examples: `  mcpscope sweep
  mcpscope sweep --dry-run
  mcpscope sweep --all-users --older-than 10m --yes
`,
		long: `Stops orphans: groups of servers whose launcher and supervisor were both killed. A
server that is in use, or being started, is never touched. Every start of a server
does the same.

Then it lists leaks, and stops them after a question: processes of configured servers
that run outside any group, whose client exited more than ten seconds ago. Their
parent is the first process or a user manager, and the other ends of stdin and stdout
are closed. Without a terminal to ask on it looks for leaks only with --yes, --dry-run
or --json.`,
	}, func(operands []string) int { return f.run(io) })
	fs := c.Flags()
	allUsers(fs, &f.AllUsers)
	fs.BoolVar(&f.dryRun, "dry-run", false, "only print what would be stopped")
	fs.BoolVar(&f.yes, "yes", false, "stop leaks without a question")
	fs.Func("older-than", "only servers that were started longer ago than `D`, e.g. 10m", func(s string) (err error) {
		f.OlderThan, err = protocol.ParseGrace(s)
		f.leakAge = f.OlderThan
		return err
	})
	fs.StringVar(&f.Unit, "unit", "", "only orphans whose client was in that `UNIT`: for a unit's ExecStopPost=-mcpscope sweep --unit=%n")
	fs.BoolVar(&f.json, "json", false, "a line of JSON for each")
	return c
}

func (f *sweepFlags) run(io cli.Stdio) (status int) {
	find, what, goal := sweep.Sweep, "stopped", "sweep"
	if f.dryRun {
		find, what, goal = fleet.Orphans, "would stop", "look for orphans"
	}
	orphans, err := find(f.SweepFilter)
	if len(orphans) == 0 && err == nil && !f.json {
		cli.None(io.Out, "no orphans")
	}
	for _, s := range orphans {
		f.reportOrphan(s, what, io)
	}
	if err != nil {
		status = io.Cannot(goal, err)
	}
	if err != nil && !f.dryRun {
		io.Hint(cli.Hint(protocol.Auto, err))
	}
	if f.Unit == "" && (f.yes || f.dryRun || f.json || cli.CanAsk(io)) {
		status = max(status, f.sweepLeaks(io))
	}
	return status
}

func (f *sweepFlags) reportOrphan(s sweep.Swept, what string, io cli.Stdio) {
	switch {
	case f.json:
		v := leftover.Swept{Version: show.JsonVersion, Kind: "orphan", Name: s.Name, ID: s.ID, Group: s.Dir, Stuck: s.Stuck}
		_ = show.PrintJSON(io.Out, v, "") // see cli.Output
	case s.Stuck != "":
		fmt.Fprintf(io.Err, "mcpscope: cannot stop all of %q (%s): %s\n", cli.OneLine(s.Name), s.ID, cli.OneLine(s.Stuck))
	default:
		fmt.Fprintf(io.Out, "%s %s (%s)\n", what, cli.OneLine(s.Name), s.ID)
	}
}

func (f *sweepFlags) sweepLeaks(io cli.Stdio) (status int) {
	all, err := leftover.FindLeaks(selection.Whose(f.AllUsers), f.leakAge)
	defer leftover.CloseLeaks(all)
	if err != nil {
		return io.Cannot("look for leaks", err)
	}
	stop := !f.dryRun && len(all) > 0
	if !f.json {
		leftover.WriteLeaks(io, all)
		if stop && !f.yes && !cli.Confirmed(io, fmt.Sprintf("Stop %s?", cli.Counted(len(all), "leak"))) {
			return cli.Unconfirmed(io, "stop leaks", "mcpscope sweep --yes")
		}
	}
	for _, l := range all {
		var stopped *bool
		if stop && (f.yes || !f.json) {
			err := l.Stop(protocol.DefaultPolicy().TermGrace)
			stopped = new(err == nil)
			if err != nil {
				status = io.Cannot(fmt.Sprintf("stop %s (process %d)", cli.OneLine(l.Server.Name), l.PID), err)
			}
		}
		switch {
		case f.json:
			_ = show.PrintJSON(io.Out, leftover.ViewLeak(l, stopped), "") // see cli.Output
		case stopped != nil && *stopped:
			fmt.Fprintf(io.Out, "stopped %s (process %d)\n", cli.OneLine(l.Server.Name), l.PID)
		}
	}
	return status
}
