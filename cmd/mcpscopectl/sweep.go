// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/host"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/leaks"
	"github.com/mcpscope/mcpscope/internal/remedy"
	"github.com/mcpscope/mcpscope/internal/render"
	"github.com/mcpscope/mcpscope/internal/selection"
	"github.com/mcpscope/mcpscope/internal/server/names"
	"github.com/mcpscope/mcpscope/internal/server/sweep"
)

type sweepFlags struct {
	servers   selection.Selection
	dryRun    bool // list them, and stop none
	json, yes bool
	quiet     bool // say nothing if nothing is found
	noOrphans bool // the search has ended, and found none
}

// leastAge is that of a leak. Of an orphan any is enough, unless --older-than was given.
func (f *sweepFlags) leastAge() time.Duration {
	if f.servers.OlderThan == nil {
		return leaks.LeastAge
	}
	return *f.servers.OlderThan
}

func sweepCommand(stdio cli.Stdio) *cobra.Command { return sweepCommandOf(&sweepFlags{}, stdio) }

func sweepCommandOf(f *sweepFlags, stdio cli.Stdio) *cobra.Command {
	c := command(spec{
		use: "sweep [flags]", short: "stop orphans and leaked servers", also: "clean cleanup gc prune leaks",
		examples: `  mcpscope sweep
  mcpscope sweep --dry-run
  mcpscope sweep --all-users --older-than 10m --yes
`,
		long: `Stop orphans: servers whose mcpscope processes were all killed. Servers that are
in use or starting are never touched. Each start of a server does the same for
its user, once that server has run for 1 s.

Then list leaks, and ask before stopping them. A leak is a server that an agent
without mcpscope has left behind: its parent is init or a user manager, nothing
is at the other end of its stdin and stdout, and it has the command and the
directory of a server in one of your configurations. The processes below it are
stopped with it. Background daemons that it started are not found, nor are
leaks that are younger than 10 s.

A process that may be a leak, but not for certain, is listed on stderr with the
reason, and left alone.

The configurations are those in your home, in the working directory, and in the
projects that clients list (Claude Code, Codex, Gemini CLI, Qwen Code, opencode,
VS Code and its relatives). With --all-users, root judges the processes of each
user by that user's configurations, read with that user's rights.

Without a terminal, leaks are listed only with --yes, --dry-run or --json;
otherwise a note says how many there are. --quiet is for timers: it prints
nothing if there is nothing to stop, and doesn't look for leaks.`,
	}, func(operands []string) int { return f.run(stdio) })
	fs := c.Flags()
	allUsers(fs, &f.servers)
	fs.BoolVar(&f.dryRun, "dry-run", false, "list the servers that would be stopped, and stop none")
	fs.BoolVar(&f.yes, "yes", false, "stop leaks without asking")
	fs.Func("older-than", "only orphans and leaks that started more than `D` ago, for example 10m",
		readBy(&f.servers.OlderThan, parseAge))
	const unit = "only orphans whose client ran in `UNIT`; " +
		"in a unit file: ExecStopPost=-mcpscope sweep --unit=%n"
	fs.Func("unit", unit, readBy(&f.servers.Unit, notEmpty))
	fs.BoolVarP(&f.quiet, "quiet", "q", false, "print nothing if there is nothing to stop")
	fs.BoolVar(&f.json, "json", false, "print one JSON object per line")
	return c
}

// parseAge reads a duration that is not negative.
func parseAge(text string) (*time.Duration, error) {
	age, err := cli.ParseDuration(text)
	if err != nil || age < 0 {
		return nil, fmt.Errorf("%q is no duration (like 30s, 10m or 1d)", text)
	}
	return &age, nil
}

func (f *sweepFlags) run(stdio cli.Stdio) int {
	if f.servers.Unit != "" && f.yes {
		return stdio.Mistake("sweep", "--unit is about orphans alone: --yes is for leaks")
	}
	status := f.sweepOrphans(stdio)
	isRefused := f.servers.AllUsers && os.Getuid() != 0 // nothing was searched, so there is nothing to add
	isAnswered := f.yes || f.dryRun || f.json || stdio.CanAsk()
	isTimer := f.quiet && !isAnswered // which stops no leak, so there is nothing to look for
	switch {
	case f.servers.Unit != "" || isRefused || isTimer:
		return status
	case isAnswered:
		return max(status, f.sweepLeaks(stdio))
	}
	f.leaveLeaks(stdio)
	return status
}

func (f *sweepFlags) ofOrphans() sweep.SweepFilter {
	filter := sweep.SweepFilter{
		Unit: f.servers.Unit, UnitStop: readUnitStop, AllUsers: f.servers.AllUsers, DryRun: f.dryRun,
	}
	if f.servers.OlderThan != nil {
		filter.OlderThan = *f.servers.OlderThan
	}
	return filter
}

// readUnitStop asks the manager how it stops a service: how is zero if it does not answer.
func readUnitStop(kind systemd.Kind, unit string) (how sweep.UnitStop) {
	c, err := systemd.Connect(kind)
	if err != nil {
		return how
	}
	defer c.Close()
	s, err := c.Service(unit)
	if err != nil {
		return how
	}
	return sweep.UnitStop{KillMode: s.Settings.KillMode, Timeout: s.Settings.TimeoutStop}
}

func (f *sweepFlags) sweepOrphans(stdio cli.Stdio) int {
	before := map[string]render.Server{}
	if f.json {
		before = leaks.MeasureServers(f.servers.Users())
	}
	orphans, err := sweep.Sweep(f.ofOrphans())
	f.noOrphans = len(orphans) == 0 && err == nil
	if f.noOrphans && !f.json && !f.quiet {
		stdio.None("no orphans (servers whose mcpscope was killed)")
	}
	status := cli.ExitOK
	for _, o := range orphans {
		status = max(status, f.printOrphan(stdio, o, before[o.ID]))
	}
	switch {
	case err == nil:
		return status
	case f.dryRun:
		return stdio.Cannot("look for orphans", err)
	}
	return stdio.Cannot("sweep", remedy.With(err, host.Fix(names.Auto, err)))
}

// printOrphan prints an orphan, which is a failure if it is stuck. beforehand it was measured.
func (f *sweepFlags) printOrphan(stdio cli.Stdio, o sweep.Swept, before render.Server) int {
	status := cli.ExitOK
	if o.Stuck != "" {
		status = cli.ExitFailure
	}
	if f.json {
		return max(status, printSweptJSON(stdio, leaks.SweptOrphan(o, before)))
	}
	name := cli.OneLine(o.Name)
	switch {
	case o.Stuck != "":
		return stdio.Cannot(fmt.Sprintf("stop all of %q (%s)", name, o.ID), errors.New(o.Stuck))
	case f.dryRun:
		fmt.Fprintf(stdio.Out, "would stop %s (%s)\n", name, o.ID)
	default:
		fmt.Fprintf(stdio.Out, "stopped %s (%s)\n", name, o.ID)
	}
	return status
}

func printSweptJSON(stdio cli.Stdio, swept leaks.Swept) int {
	return printJSONLine(stdio, "sweep", swept)
}
