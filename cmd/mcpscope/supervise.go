// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"strconv"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/server/supervisor"
	"github.com/mcpscope/mcpscope/internal/server/sweep"
)

// superviseCommand is the supervisor's process; the launcher starts it. The name in
// its arguments is for people who look at ps.
func superviseCommand(args []string, io cli.Stdio) int {
	foreign := cli.OpenDescriptors()
	if len(args) != 3 {
		fmt.Fprint(io.Err, "mcpscope: supervise is started by mcpscope run alone\n")
		return cli.ExitUsage
	}
	if args[0] == protocol.CleanWord {
		return clean(args[1], args[2])
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
	return supervisor.Supervise(memory, pid, foreign)
}

// clean is the process of who stood by when launcher and supervisor were killed. Nobody reads what it says.
func clean(parent, dir string) int {
	fd, err := strconv.Atoi(parent)
	if err != nil {
		return cli.ExitUsage
	}
	if sweep.Clean(fd, dir) != nil {
		return cli.ExitOwnFailure // a sweep tries again
	}
	return cli.ExitOK
}
