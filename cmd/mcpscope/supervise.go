// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"strconv"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/scope"
)

// superviseCommand is the supervisor's process; the launcher starts it. The name in
// its arguments is for people who look at ps.
func superviseCommand(args []string, io cli.Stdio) int {
	foreign := cli.OpenDescriptors()
	if len(args) != 3 {
		fmt.Fprint(io.Err, "mcpscope: supervise is started by mcpscope run alone\n")
		return cli.ExitUsage
	}
	memory, err := strconv.Atoi(args[0])
	if err != nil {
		return cli.ExitUsage
	}
	pid, err := strconv.Atoi(args[1])
	if err != nil {
		return cli.ExitUsage
	}
	_, _ = cli.NoFile() // it raises our own limit; the server's is in the configuration
	return scope.Supervise(memory, pid, foreign)
}
