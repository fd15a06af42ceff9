// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/flags"
	"github.com/mcpscope/mcpscope/internal/selection"
	"github.com/mcpscope/mcpscope/internal/server/fleet"
	"github.com/mcpscope/mcpscope/internal/similar"
)

func setCommand(stdio cli.Stdio) *cobra.Command {
	var s selection.Selection
	c := command(spec{
		use: "set NAME|ID… FILE=VALUE… [flags]", short: "limit the resources of running servers",
		also:     "limit",
		operands: serversAndSessions,
		examples: `  mcpscope set browser memory.max=1G pids.max=200
  mcpscope set git cpu.max=150%
  mcpscope set git memory.max=max
`,
		long: `Limit running servers until they end: memory.max=1G, memory.high=800M,
pids.max=100, cpu.max=150%, cpu.weight=50, io.weight=50, or another file of
their group. Prints the value that the kernel reports for each limit. The value
"max" removes a limit. The beginning of an ID is enough. The name or id of a
session limits its agent and all its servers together.

If a server uses more memory than the new limit, the kernel reclaims memory. If
that fails with memory.max, the kernel kills the server. To limit each start of
a server, use the flags of mcpscope run, or mcpscope.toml for servers that are
wrapped: see 'man mcpscope.toml'.`,
	}, func(operands []string) int { return setLimits(&s, operands, stdio) })
	allUsers(c.Flags(), &s)
	c.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return limitForFlag(err) })
	return c
}

// limitForFlag names the file of a limit that run has a flag for.
func limitForFlag(err error) error {
	unknown, isUnknown := errors.AsType[*flags.UnknownError](err)
	if !isUnknown {
		return err
	}
	file := strings.Replace(strings.TrimLeft(unknown.As, "-"), "-", ".", 1)
	if !slices.Contains(limitFiles, file) {
		return err
	}
	const text = "unknown flag %q, which is one of run; here it is an argument: %s=VALUE"
	return fmt.Errorf(text, unknown.As, file)
}

// limitFiles are those that people limit most.
var limitFiles = []string{
	"memory.max", "memory.high", "memory.low", "memory.swap.max", "pids.max",
	"cpu.max", "cpu.weight", "io.max", "io.weight",
}

// meantFile has the name of a file that may be mistyped, for the end of an error.
func meantFile(limit string) string {
	typed, _, _ := strings.Cut(limit, "=")
	if slices.Contains(limitFiles, typed) { // it is the value that is wrong
		return ""
	}
	return similar.Meant(similar.Among(typed, limitFiles))
}

func setLimits(s *selection.Selection, operands []string, stdio cli.Stdio) int {
	names, limitTexts := splitLimits(operands)
	var limits []cgroup.Limit
	for _, text := range limitTexts {
		limit, err := cgroup.ParseLimit(text)
		if err != nil {
			return stdio.Mistake("set", err.Error()+meantFile(text))
		}
		limits = append(limits, limit)
	}
	if len(names) > 0 && len(limits) == 0 {
		return stdio.Mistake("set", missingLimit(names))
	}
	set := serverAction{
		verb: "set",
		do: func(s *fleet.Listed) ([]string, error) {
			return setAll(nameAndID(s), s.Limit, limits)
		},
		doSession: func(s *fleet.Session) ([]string, error) {
			return setAll(sessionAndID(s), s.Limit, limits)
		},
	}
	s.Names = names
	return set.runOnNamed(s, stdio)
}

// splitLimits separates the names of servers from limits. A name may contain "=", but hardly behind the name
// of a file.
func splitLimits(operands []string) (names, limits []string) {
	for _, operand := range operands {
		file, _, hasValue := strings.Cut(operand, "=")
		if hasValue && strings.Contains(file, ".") {
			limits = append(limits, operand)
		} else {
			names = append(names, operand)
		}
	}
	return names, limits
}

func missingLimit(names []string) string {
	last := names[len(names)-1]
	if file, _, ok := strings.Cut(last, "="); ok {
		return fmt.Sprintf("%q is not a file of a cgroup, such as memory.max", file)
	}
	return "no limit given: add FILE=VALUE, for example memory.max=1G"
}

// setAll stops at the first limit that the kernel refuses.
func setAll(
	target string, set func(cgroup.Limit) (string, error), limits []cgroup.Limit,
) (lines []string, err error) {
	for _, limit := range limits {
		change, err := set(limit)
		if err != nil {
			return lines, err
		}
		lines = append(lines, target+": "+change)
	}
	return lines, nil
}
