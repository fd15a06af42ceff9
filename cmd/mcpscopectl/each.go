// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"fmt"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/remedy"
	"github.com/mcpscope/mcpscope/internal/selection"
	"github.com/mcpscope/mcpscope/internal/server/fleet"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// serverAction is one thing that a command does to many servers.
type serverAction struct {
	verb string // in "cannot VERB NAME (ID)"
	// do returns the lines to print; with an error those of the part that was done.
	do func(*fleet.Listed) ([]string, error)
}

// actionResult is the result of an action on one server.
type actionResult struct {
	server *fleet.Listed
	lines  []string
	err    error
}

// oneLineAction returns an action that prints "PAST NAME (ID)" for each server.
func oneLineAction(verb, past string, do func(*fleet.Listed) error) serverAction {
	return serverAction{verb: verb, do: func(s *fleet.Listed) ([]string, error) {
		if err := do(s); err != nil {
			return nil, err
		}
		return []string{past + " " + nameAndID(s)}, nil
	}}
}

// runOnNamed acts on the servers with these names or ids, and returns the status of the command.
func (a serverAction) runOnNamed(f *selection.Filter, names []string, stdio cli.Stdio) int {
	if len(names) == 0 {
		return stdio.Mistake(a.verb, "no server given: add a name or an id")
	}
	servers, err := f.Choose(names)
	if err != nil {
		return stdio.Cannot(a.verb, err)
	}
	defer selection.Close(servers)
	return a.runOn(servers, stdio)
}

// runOn acts on all servers at a time: a stop can take its whole grace period. It prints each result as soon
// as there is one.
func (a serverAction) runOn(servers []*fleet.Listed, stdio cli.Stdio) int {
	results := make(chan actionResult)
	for _, s := range servers {
		go func() {
			lines, err := a.do(s)
			results <- actionResult{server: s, lines: lines, err: err}
		}()
	}
	status := cli.ExitOK
	for range servers {
		status = max(status, a.print(<-results, stdio))
	}
	return status
}

func (a serverAction) print(result actionResult, stdio cli.Stdio) int {
	for _, line := range result.lines {
		fmt.Fprintln(stdio.Out, cli.OneLine(line))
	}
	if result.err != nil {
		return stdio.Cannot(a.verb+" "+nameAndID(result.server), withLimitStep(result.err))
	}
	return cli.ExitOK
}

// withLimitStep gives a limit that cannot be applied its next step.
func withLimitStep(err error) error {
	if limit, ok := errors.AsType[*protocol.LimitError](err); ok {
		return remedy.With(err, limit.Step)
	}
	return err
}

func nameAndID(s *fleet.Listed) string { return fmt.Sprintf("%s (%s)", cli.OneLine(s.Name), s.ID) }
