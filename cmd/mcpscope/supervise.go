// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"strconv"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/server/brain"
)

// superviseCommand is the process that a guard starts when the launcher is dead. The name in
// its arguments is for people who read the output of ps.
func superviseCommand(args []string, io cli.Stdio) int {
	if len(args) != 3 {
		fmt.Fprint(io.Err, "mcpscope: supervise is started by mcpscope run alone\n")
		return cli.ExitUsage
	}
	memory, err := strconv.Atoi(args[1])
	if err != nil {
		return cli.ExitUsage
	}
	sock, err := strconv.Atoi(args[2])
	if err != nil {
		return cli.ExitUsage
	}
	return brain.TakeOver(memory, sock)
}
