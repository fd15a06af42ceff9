// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/name"
)

// nodeThread is the name of the main thread of Node.js.
const nodeThread = "MainThread"

// commandMost is the number of bytes that are read of a command line.
const commandMost = 4096

// clientName is the name of the program that a client's runtime runs; "" for a client whose process has its
// own name.
func clientName(pid int) string {
	comm, err := proc.Comm(pid)
	if err != nil || comm != nodeThread && name.KindOf(comm) != name.Interpreter {
		return ""
	}
	argv := proc.Arguments(pid, commandMost)
	if len(argv) == 0 || argv[0] == "" {
		return ""
	}
	return name.Derive(argv)
}
