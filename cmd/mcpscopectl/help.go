//go:build linux

package main

import (
	"fmt"
	"strings"

	"github.com/mcpscope/mcpscope/internal/cli"
)

const helpUsage = `Usage: mcpscope help [COMMAND]

Explains mcpscope, or one command.
`

const versionUsage = `Usage: mcpscope version

Prints the version, and what it was built with.
`

func helpCommand(args []string, io cli.Stdio) int {
	if len(args) == 0 {
		fmt.Fprint(io.Out, overview())
		return cli.ExitOK
	}
	for _, c := range commands() {
		if c.name == args[0] && !c.hidden {
			fmt.Fprint(io.Out, c.usage)
			return cli.ExitOK
		}
	}
	if cli.IsHelp(args[0]) {
		fmt.Fprint(io.Out, helpUsage)
		return cli.ExitOK
	}
	fmt.Fprintf(io.Err, "mcpscope: help: unknown command %q\nmcpscope: hint: mcpscope help\n", args[0])
	return cli.ExitUsage
}

func overview() string {
	var b strings.Builder
	b.WriteString("mcpscope runs each MCP server in a control group of its own, and leaves nothing of it behind.\n\n")
	b.WriteString("Usage: mcpscope COMMAND [ARG…]\n\n")
	for _, c := range commands() {
		if !c.hidden {
			fmt.Fprintf(&b, "  %-12s %s\n", c.name, c.summary)
		}
	}
	b.WriteString("\nPut it in front of a server's command: mcpscope run -- npx -y @modelcontextprotocol/server-everything\n")
	b.WriteString("mcpscope help COMMAND says more.\n")
	return b.String()
}

func versionCommand(args []string, io cli.Stdio) int {
	if done, status := parseFlags(newFlags("version"), args, versionUsage, io); done {
		return status
	}
	runner, err := runnerVersion()
	if err != nil {
		fmt.Fprintf(io.Out, "mcpscopectl %s (%s)\n", ownVersion(), cli.Built())
		return io.Cannot("tell the version of mcpscope", err)
	}
	fmt.Fprintf(io.Out, "mcpscope %s (%s)\n", runner, cli.Built())
	if runner != ownVersion() {
		fmt.Fprintf(io.Out, "mcpscopectl %s (%s)\n", ownVersion(), cli.Built())
		fmt.Fprint(io.Err, "mcpscope: note: the two programs are of different versions; install both of one\n")
	}
	return cli.ExitOK
}
