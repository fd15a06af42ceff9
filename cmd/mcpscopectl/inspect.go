// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/history"
	"github.com/mcpscope/mcpscope/internal/selection"
	"github.com/mcpscope/mcpscope/internal/show"
)

func inspectCommand(io cli.Stdio) *cobra.Command {
	var f selection.Filter
	var asJSON bool
	c := command(spec{
		use: "inspect NAME|ID… [flags]", short: "show details of servers",
		also: "show info", operands: servers,
		examples: `  mcpscope inspect git
  mcpscope inspect k3x9 --json
`,
		long: `Show details of servers: client and its ancestors, unit, backend, policy, CPU,
memory, pids, I/O and age. The files behind stdin, stdout and stderr follow, and
the process tree with the memory of each process. Counters that this kernel does
not provide are omitted. For the history of a server that has ended, run
mcpscope logs NAME.`,
	}, func(operands []string) int { return inspectServers(&f, operands, asJSON, io) })
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

// inspectEnded is for a server that does not run: the journal may have its end.
func inspectEnded(unknown *selection.UnknownError, io cli.Stdio) int {
	last := history.LastEnd(unknown.Arg)
	if last == "" {
		return io.CannotWithHint("inspect", unknown, "mcpscope logs "+unknown.Arg+", if it has ended")
	}
	err := fmt.Errorf("%w any more: %s", unknown, last)
	return io.CannotWithHint("inspect", err, "mcpscope logs "+unknown.Arg+" has its history")
}

func inspectServers(f *selection.Filter, operands []string, asJSON bool, io cli.Stdio) int {
	if len(operands) == 0 {
		return io.Mistake("inspect", "no server given: add a name or an id")
	}
	servers, err := f.Choose(operands)
	if unknown, is := errors.AsType[*selection.UnknownError](err); is && harmless(unknown.Arg) {
		return inspectEnded(unknown, io)
	}
	if err != nil {
		return io.Cannot("inspect", err)
	}
	defer selection.Close(servers)
	all, err := show.InspectAll(servers)
	switch {
	case err != nil:
		return io.Cannot("inspect", err)
	case len(all) == 0:
		return io.Cannot("inspect", &selection.UnknownError{Arg: operands[0]}) // any more
	case asJSON:
		return show.JSON(io, "inspect", all)
	}
	show.WriteInspections(io.Out, all)
	return cli.ExitOK
}
