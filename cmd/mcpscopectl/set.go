// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/selection"
	"github.com/mcpscope/mcpscope/internal/server/fleet"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

func setCommand(io cli.Stdio) *cobra.Command {
	var f selection.Filter
	c := command(spec{
		use: "set NAME|ID… FILE=VALUE… [flags]", short: "limit what a server may use", operands: servers,
		examples: `  mcpscope set browser memory.max=1G pids.max=200
  mcpscope set git cpu.max=150%
  mcpscope set git memory.max=max
`,
		long: `Limits servers that run: memory.max=1G, memory.high=800M, pids.max=100,
cpu.max=150%, cpu.weight=50, io.weight=50, or another file of their group, until they
end. Says what the kernel has set, a line for each. "max" takes a limit away. ID
may be the beginning of one.

A limit below what a server has now makes the kernel take it away: of memory.max
that ends the server. mcpscope run has the same limits as flags. The exit status is 0
if all are set.`,
	}, func(operands []string) int { return setLimits(&f, operands, io) })
	allUsers(c.Flags(), &f.AllUsers)
	return c
}

func setLimits(f *selection.Filter, operands []string, io cli.Stdio) (status int) {
	servers, limits, err := splitLimits(operands)
	switch {
	case err != nil:
		return io.Mistake("set", err.Error())
	case len(servers) == 0:
		return io.Mistake("set", "which server? Give a name or an id")
	case len(limits) == 0:
		last := servers[len(servers)-1]
		if file, _, is := strings.Cut(last, "="); is {
			return io.Mistake("set", fmt.Sprintf("%q is not a file of a control group, such as memory.max", file))
		}
		return io.Mistake("set", "which limit? Give FILE=VALUE, like memory.max=1G")
	}
	chosen, err := f.Choose(servers)
	if err != nil {
		return io.Cannot("set limits", err)
	}
	defer selection.Close(chosen)
	for _, s := range chosen {
		for _, l := range limits {
			if err := setOne(s, l, io); err != nil {
				status = cli.ExitFailure
			}
		}
	}
	return status
}

func setOne(s *fleet.Listed, l cgroup.Limit, io cli.Stdio) error {
	changed, err := s.Limit(l)
	if err != nil {
		io.Cannot(fmt.Sprintf("limit %s (%s)", cli.OneLine(s.Name), s.ID), err)
		if limit, ok := errors.AsType[*protocol.LimitError](err); ok {
			io.Hint(limit.Step)
		}
		return err
	}
	fmt.Fprintf(io.Out, "%s (%s): %s\n", cli.OneLine(s.Name), s.ID, cli.OneLine(changed.String()))
	return nil
}

// splitLimits tells limits from servers, whose names may have an = in them, but hardly one behind
// the name of a file.
func splitLimits(operands []string) (servers []string, limits []cgroup.Limit, err error) {
	for _, arg := range operands {
		file, _, is := strings.Cut(arg, "=")
		if !is || !strings.Contains(file, ".") {
			servers = append(servers, arg)
			continue
		}
		l, err := cgroup.ParseLimit(arg)
		if err != nil {
			return nil, nil, err
		}
		limits = append(limits, l)
	}
	return servers, limits, nil
}
