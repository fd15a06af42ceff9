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
	memory, sock, ok := descriptors(args)
	if !ok {
		fmt.Fprint(io.Err, "mcpscope: supervise is for mcpscope itself\n")
		return cli.ExitUsage
	}
	return brain.Decide(memory, sock)
}

// descriptors returns the numbers that a guard has put on the command line.
func descriptors(args []string) (memory, sock int, ok bool) {
	if len(args) != 2 {
		return -1, -1, false
	}
	memory, errMemory := strconv.Atoi(args[0])
	sock, errSock := strconv.Atoi(args[1])
	return memory, sock, errMemory == nil && errSock == nil
}
