//go:build linux

package main

import (
	"flag"
	"fmt"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/scope"
)

const sweepUsage = `Usage: mcpscope sweep [--all-users] [--dry-run] [--older-than D] [--unit UNIT] [--json]

Ends orphans: groups of servers whose launcher and supervisor were both killed, so
that nobody is left to end them. A server that is in use, or being started, is never
touched. Prints what was ended, a line each. Every start of a server does the same.

  --all-users     those of every user (root alone)
  --dry-run       only say what would be ended
  --older-than D  only servers that were started longer ago than D, e.g. 10m
  --unit UNIT     only servers whose client was in that unit: for a unit's
                  ExecStopPost=-mcpscope sweep --unit=%n
  --json          a line of JSON for each
`

type sweepFlags struct {
	scope.SweepFilter
	dryRun, json bool
}

func (f *sweepFlags) flags() *flag.FlagSet {
	fs := newFlags("sweep")
	fs.BoolVar(&f.AllUsers, "all-users", false, "")
	fs.BoolVar(&f.dryRun, "dry-run", false, "")
	fs.BoolVar(&f.json, "json", false, "")
	fs.StringVar(&f.Unit, "unit", "", "")
	fs.Func("older-than", "", func(s string) (err error) {
		f.OlderThan, err = scope.ParseGrace(s)
		return err
	})
	return fs
}

func sweepCommand(args []string, io cli.Stdio) int {
	var f sweepFlags
	done, status := parseFlags(f.flags(), args, sweepUsage, io)
	if done {
		return status
	}
	if f.dryRun {
		return f.rehearse(io)
	}
	swept, err := scope.Sweep(f.SweepFilter)
	for _, s := range swept {
		f.tell(s, "ended", io)
	}
	if err != nil {
		status = io.Cannot("sweep", err)
		if h := cli.Hint(scope.Auto, err); h != "" {
			fmt.Fprintf(io.Err, "mcpscope: hint: %s\n", h)
		}
	}
	return status
}

// rehearse says what a sweep would end.
func (f *sweepFlags) rehearse(io cli.Stdio) int {
	orphans, err := scope.Orphans(f.SweepFilter)
	for _, s := range orphans {
		f.tell(s, "would end", io)
	}
	if err != nil {
		return io.Cannot("look for orphans", err)
	}
	return cli.ExitOK
}

// tell says what became of an orphan.
func (f *sweepFlags) tell(s scope.Swept, what string, io cli.Stdio) {
	switch {
	case f.json:
		_ = cli.PrintJSON(io.Out, s, "") // whoever reads has gone
	case s.Stuck != "":
		fmt.Fprintf(io.Err, "mcpscope: cannot end all of %q (%s): %s\n", cli.OneLine(s.Name), s.ID, cli.OneLine(s.Stuck))
	default:
		fmt.Fprintf(io.Out, "%s %s (%s)\n", what, cli.OneLine(s.Name), s.ID)
	}
}
