// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"strconv"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/server/brain"
)

// superviseCommand is the process that a guard starts when there is something to decide.
func superviseCommand(args []string, io cli.Stdio) int {
	if len(args) != 2 {
		fmt.Fprint(io.Err, "mcpscope: supervise is for mcpscope itself\n")
		return cli.ExitUsage
	}
	memory, err := strconv.Atoi(args[0])
	if err != nil {
		return cli.ExitUsage
	}
	sock, err := strconv.Atoi(args[1])
	if err != nil {
		return cli.ExitUsage
	}
	return brain.Decide(memory, sock)
}
