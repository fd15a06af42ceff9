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
	servers selection.Selection
	json    bool
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
	}, func(operands []string) int {
		f.servers.Names = operands
		return f.run(stdio)
	})
	allUsers(c.Flags(), &f.servers)
	c.Flags().BoolVar(&f.json, "json", false, "print one JSON object")
	return c
}

func (f *inspectFlags) run(stdio cli.Stdio) int {
	if len(f.servers.Names) == 0 {
		return stdio.Mistake("inspect", "no server given: add a name or an id")
	}
	found, err := f.servers.Find()
	if err != nil {
		return stdio.Cannot("inspect", f.withEnd(err))
	}
	defer found.Close()
	return f.print(found, stdio)
}

func (f *inspectFlags) print(found *selection.Found, stdio cli.Stdio) int {
	inspections, errOfServer := render.InspectAll(found.Servers)
	sessions, errOfSession := render.InspectSessions(found.Sessions)
	err := errors.Join(errOfServer, errOfSession)
	areGone := len(inspections) == 0 && len(sessions) == 0
	if err == nil && areGone { // they have ended since they were chosen
		err = &selection.UnknownError{Name: f.servers.Names[0]}
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
func (f *inspectFlags) withEnd(err error) error {
	unknown, ok := errors.AsType[*selection.UnknownError](err)
	if !ok || !harmless(unknown.Name) {
		return err
	}
	ended := selection.Selection{Names: []string{unknown.Name}, AllUsers: f.servers.AllUsers}
	command := ended.CommandLine("logs")
	last := logs.LastEnd(&ended)
	if last == "" {
		hint := command + ", if it has ended"
		if near := remedy.Of(err); near != "" {
			hint = near + "; " + hint
		}
		return remedy.With(unknown, hint)
	}
	return remedy.With(fmt.Errorf("%w any more: %s", unknown, last), command+" has its history")
}
