// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/programs"
	"github.com/mcpscope/mcpscope/internal/settings"
)

// dispatch becomes mcpscopectl: the same process, with the same terminal, descriptors and signals.
// It returns only if it can't.
func dispatch(args []string, io cli.Stdio) int {
	tool, err := programs.FindTool()
	if err == nil {
		err = syscall.Exec(tool, append([]string{tool}, args...), environment())
		err = fmt.Errorf("execute %s: %w", tool, err)
	}
	if errors.As(err, new(*programs.MissingError)) {
		return alone(args, err, io)
	}
	return io.Cannot(args[0], err)
}

// environment is ours, to the byte: a gateway passes it on.
func environment() []string {
	env, err := proc.Environ()
	if err != nil {
		return os.Environ() // without duplicates
	}
	return env
}

// alone explains the commands that need mcpscopectl.
func alone(args []string, missing error, io cli.Stdio) int {
	switch {
	case len(args) == 0, cli.IsHelp(args[0]), args[0] == "help" && len(args) == 1:
		fmt.Fprintf(io.Out, loneHelp, missing)
		return cli.ExitOK
	case args[0] == "version" || args[0] == "-version" || args[0] == "--version":
		fmt.Fprintf(io.Out, "mcpscope %s (%s)\n", programs.Version(), programs.Built())
		return cli.ExitOK
	case args[0] == "help" && len(args) == 2 && args[1] == "run":
		fmt.Fprint(io.Out, settings.Help(settings.Run))
		return cli.ExitOK
	}
	status := io.Cannot(cli.OneLine(args[0]), missing)
	io.Hint("install both programs; this one has mcpscope run, mcpscope help and mcpscope version")
	return status
}

const loneHelp = `Usage: mcpscope COMMAND [ARG…]

  mcpscope run -- npx -y @modelcontextprotocol/server-everything

mcpscope runs each MCP server in its own control group (cgroup), and leaves no
process of it behind.

  run      run a server in its own group: mcpscope help run
  version  print the version
  help     print this text

All other commands are in a second program: %v
`
