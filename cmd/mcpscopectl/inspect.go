// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/logs"
	"github.com/mcpscope/mcpscope/internal/remedy"
	"github.com/mcpscope/mcpscope/internal/render"
	"github.com/mcpscope/mcpscope/internal/selection"
)

type inspectFlags struct {
	selection.Filter
	json bool
}

func inspectCommand(stdio cli.Stdio) *cobra.Command {
	var f inspectFlags
	c := command(spec{
		use: "inspect NAME|ID… [flags]", short: "show details of servers",
		also: "show info", operands: serversAndSessions,
		examples: `  mcpscope inspect git
  mcpscope inspect k3x9 --json
`,
		long: `Show details of servers: client and its ancestors, unit, backend, policy, CPU,
memory, pids, I/O and age. The files behind stdin, stdout and stderr follow, and
the process tree with the memory of each process. Counters that this kernel does
not provide are omitted. For a session, it shows limits, the sums of the agent
and its servers, the processes of the agent, and the servers. For the history of
a server that has ended, run mcpscope logs NAME.`,
	}, func(operands []string) int { return f.run(operands, stdio) })
	allUsers(c.Flags(), &f.AllUsers)
	c.Flags().BoolVar(&f.json, "json", false, "print one JSON object")
	return c
}

func (f *inspectFlags) run(operands []string, stdio cli.Stdio) int {
	if len(operands) == 0 {
		return stdio.Mistake("inspect", "no server given: add a name or an id")
	}
	chosen, err := f.ChooseAny(operands)
	if err != nil {
		return stdio.Cannot("inspect", withEnd(err))
	}
	defer chosen.Close()
	return f.print(chosen, operands, stdio)
}

func (f *inspectFlags) print(chosen *selection.Chosen, operands []string, stdio cli.Stdio) int {
	inspections, errOfServer := render.InspectAll(chosen.Servers)
	sessions, errOfSession := render.InspectSessions(chosen.Sessions)
	err := errors.Join(errOfServer, errOfSession)
	areGone := len(inspections) == 0 && len(sessions) == 0
	if err == nil && areGone { // they have ended since they were chosen
		err = &selection.UnknownError{Arg: operands[0]}
	}
	if err != nil {
		return stdio.Cannot("inspect", err)
	}
	if f.json {
		return printJSON(stdio, "inspect", render.ListWith(inspections, sessions))
	}
	render.WriteInspections(stdio.Out, inspections, sessions)
	return cli.ExitOK
}

// withEnd adds the end of a server that does not run, if the journal has it. A hint repeats the name of the
// server only if a shell takes it for a word.
func withEnd(err error) error {
	unknown, ok := errors.AsType[*selection.UnknownError](err)
	if !ok || !harmless(unknown.Arg) {
		return err
	}
	command := "mcpscope logs " + unknown.Arg
	last := logs.LastEnd(unknown.Arg)
	if last == "" {
		hint := command + ", if it has ended"
		if near := remedy.Of(err); near != "" {
			hint = near + "; " + hint
		}
		return remedy.With(unknown, hint)
	}
	return remedy.With(fmt.Errorf("%w any more: %s", unknown, last), command+" has its history")
}
