// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"fmt"

	"github.com/mcpscope/mcpscope/internal/atomicfile"
	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/remedy"
	"github.com/mcpscope/mcpscope/internal/selection"
	"github.com/mcpscope/mcpscope/internal/server/fleet"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// serverAction is one thing that a command does to many servers and sessions.
type serverAction struct {
	verb string // in "cannot VERB NAME (ID)"
	// do returns the lines to print; with an error those of the part that was done.
	do func(*fleet.Listed) ([]string, error)
	// doSession is the same for the agent and all servers of a session.
	doSession func(*fleet.Session) ([]string, error)
}

// actionResult is the result of an action on one server or session.
type actionResult struct {
	target string
	lines  []string
	err    error
}

// oneLine returns a function that prints "PAST NAME (ID)".
func oneLine[T any](past string, called func(T) string, do func(T) error) func(T) ([]string, error) {
	return func(target T) ([]string, error) {
		if err := do(target); err != nil {
			return nil, err
		}
		return []string{past + " " + called(target)}, nil
	}
}

// runOnNamed acts on the servers and sessions that names mean, and returns the status of the command.
func (a serverAction) runOnNamed(s *selection.Selection, stdio cli.Stdio) int {
	if len(s.Names) == 0 {
		return stdio.Mistake(a.verb, "no server given: add a name or an id")
	}
	found, err := s.Find()
	if err != nil {
		return stdio.Cannot(a.verb, err)
	}
	defer found.Close()
	return a.runToEnd(found, stdio)
}

// runToEnd is runOn for what takes some seconds at most. A signal that asks this program to exit waits until
// each result is printed: otherwise a server would stay frozen although nobody has said so.
func (a serverAction) runToEnd(found *selection.Found, stdio cli.Stdio) int {
	defer atomicfile.DeferSignals()()
	return a.runOn(found, stdio)
}

// runOn acts on all at a time: a stop can take its whole grace period. It prints each result as soon as there
// is one.
func (a serverAction) runOn(found *selection.Found, stdio cli.Stdio) int {
	results := make(chan actionResult)
	for _, s := range found.Servers {
		go func() {
			lines, err := a.do(s)
			results <- actionResult{target: nameAndID(s), lines: lines, err: err}
		}()
	}
	for _, s := range found.Sessions {
		go func() {
			lines, err := a.doSession(s)
			results <- actionResult{target: sessionAndID(s), lines: lines, err: err}
		}()
	}
	status := cli.ExitOK
	for range len(found.Servers) + len(found.Sessions) {
		status = max(status, a.print(<-results, stdio))
	}
	return status
}

func (a serverAction) print(result actionResult, stdio cli.Stdio) int {
	for _, line := range result.lines {
		fmt.Fprintln(stdio.Out, cli.OneLine(line))
	}
	if result.err != nil {
		return stdio.Cannot(a.verb+" "+result.target, withLimitStep(result.err))
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

func sessionAndID(s *fleet.Session) string {
	return fmt.Sprintf("the session %s (%s)", cli.OneLine(s.Name), s.ID)
}

func nameAndID(s *fleet.Listed) string {
	return fmt.Sprintf("%s (%s)", cli.OneLine(s.Facts.Name), s.Placed.ID)
}
