//go:build linux

package main

import (
	"fmt"
	"strconv"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/scope"
)

// heraldCommand is a process that the launcher starts.
func heraldCommand(args []string, io cli.Stdio) int {
	if len(args) != 1 {
		fmt.Fprint(io.Err, "mcpscope: herald is started by mcpscope run alone\n")
		return cli.ExitUsage
	}
	memory, err := strconv.Atoi(args[0])
	if err != nil || scope.Herald(memory) != nil {
		return cli.ExitFailure // nobody looks at it
	}
	return cli.ExitOK
}
