//go:build linux

package main

import (
	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/scope"
)

const freezeUsage = `Usage: mcpscope freeze NAME|ID… [--all-users]

Freezes servers: none of their processes runs until mcpscope thaw. A client waits for
them meanwhile. Whatever ends a server ends a frozen one as well.
`

const thawUsage = `Usage: mcpscope thaw NAME|ID… [--all-users]

Lets servers go on that mcpscope freeze, or one of their own processes, has frozen.
`

const waitUsage = `Usage: mcpscope wait NAME|ID… [--all-users]

Waits until servers have ended and nothing is left of them.
`

func freezeCommand(args []string, io cli.Stdio) int {
	return named(args, io, "freeze", freezeUsage, "frozen", (*scope.Listed).Freeze)
}

func thawCommand(args []string, io cli.Stdio) int {
	return named(args, io, "thaw", thawUsage, "thawed", (*scope.Listed).Thaw)
}

func waitCommand(args []string, io cli.Stdio) int {
	return named(args, io, "wait", waitUsage, "", (*scope.Listed).WaitForEver)
}

// named is a command that does one thing to the servers that are named.
func named(args []string, io cli.Stdio, command, usage, past string, do func(*scope.Listed) error) int {
	var f filter
	fs := newFlags(command)
	fs.BoolVar(&f.allUsers, "all-users", false, "")
	operands, done, status := parseArgs(fs, args, usage, io)
	if done {
		return status
	}
	if len(operands) == 0 {
		return io.Mistake(command, "which server? Give a name or an id")
	}
	servers, err := f.choose(operands)
	if err != nil {
		return io.Cannot(command, err)
	}
	defer closeAll(servers)
	return onEach(servers, io, command, past, do)
}
