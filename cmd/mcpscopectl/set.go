// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/selection"
	"github.com/mcpscope/mcpscope/internal/server/fleet"
)

func setCommand(io cli.Stdio) *cobra.Command {
	var f selection.Filter
	c := command(spec{
		use: "set NAME|ID… FILE=VALUE… [flags]", short: "limit the resources of running servers",
		also:     "limit",
		operands: servers,
		examples: `  mcpscope set browser memory.max=1G pids.max=200
  mcpscope set git cpu.max=150%
  mcpscope set git memory.max=max
`,
		long: `Limit running servers until they end: memory.max=1G, memory.high=800M,
pids.max=100, cpu.max=150%, cpu.weight=50, io.weight=50, or another file of
their group. Prints the value that the kernel reports for each limit. The value
"max" removes a limit. The beginning of an ID is enough.

If a server uses more memory than the new limit, the kernel reclaims memory. If
that fails with memory.max, the kernel kills the server. To limit each start of
a server, use the flags of mcpscope run, or mcpscope.toml for servers that are
wrapped: see 'man mcpscope.toml'.`,
	}, func(operands []string) int { return setLimits(&f, operands, io) })
	return c
}

func setLimits(f *selection.Filter, operands []string, io cli.Stdio) int {
	var servers []string
	var limits []cgroup.Limit
	for _, arg := range operands {
		// a server's name may have an = in it, but hardly one behind the name of a file
		if file, _, is := strings.Cut(arg, "="); !is || !strings.Contains(file, ".") {
			servers = append(servers, arg)
			continue
		}
		l, err := cgroup.ParseLimit(arg)
		if err != nil {
			return io.Mistake("set", err.Error())
		}
		limits = append(limits, l)
	}
	if len(servers) > 0 && len(limits) == 0 {
		if file, _, is := strings.Cut(servers[len(servers)-1], "="); is {
			return io.Mistake("set", fmt.Sprintf("%q is not a file of a cgroup, such as memory.max", file))
		}
		return io.Mistake("set", "no limit given: add FILE=VALUE, for example memory.max=1G")
	}
	return f.Do(servers, io, "set", func(s *fleet.Listed) (string, error) {
		var done []string
		for _, l := range limits {
			changed, err := s.Limit(l)
			if err != nil {
				return "", err
			}
			done = append(done, fmt.Sprintf("%s (%s): %s", cli.OneLine(s.Name), s.ID, changed))
		}
		return strings.Join(done, "\n"), nil
	})
}
