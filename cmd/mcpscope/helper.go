// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"strconv"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/server/guard"
	"github.com/mcpscope/mcpscope/internal/server/helper"
	"github.com/mcpscope/mcpscope/internal/server/launcher"
)

// superviseCommand is the process that a guard starts for what it can't do.
func superviseCommand(args []string, io cli.Stdio) int {
	fds, ok := numbers(args, 2)
	if !ok {
		return refuseInternal("supervise", io)
	}
	return helper.Serve(fds[0], fds[1])
}

// scopeCommand is the process by which a launcher has a manager make the group of its server.
func scopeCommand(args []string, io cli.Stdio) int {
	given, ok := numbers(args, 3)
	if !ok {
		return refuseInternal(guard.ScopeCommand, io)
	}
	return launcher.MakeScope(given[0], given[1], given[2])
}

func refuseInternal(command string, io cli.Stdio) int {
	fmt.Fprintf(io.Err, "mcpscope: %s is for mcpscope itself\n", command)
	return cli.ExitUsage
}

// numbers returns those that raw code has put on the command line.
func numbers(args []string, count int) (all []int, ok bool) {
	for _, text := range args {
		n, err := strconv.Atoi(text)
		if err != nil {
			return nil, false
		}
		all = append(all, n)
	}
	return all, len(all) == count
}
