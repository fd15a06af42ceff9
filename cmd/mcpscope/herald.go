//go:build linux

package main

import (
	"fmt"
	"strconv"

	"github.com/mcpscope/mcpscope/scope"
)

// heraldCommand is a process that the launcher starts.
func heraldCommand(args []string, io stdio) int {
	if len(args) != 1 {
		fmt.Fprint(io.err, "mcpscope: herald is started by mcpscope run alone\n")
		return exitUsage
	}
	memory, err := strconv.Atoi(args[0])
	if err != nil || scope.Herald(memory) != nil {
		return exitFailure // nobody looks at it
	}
	return exitOK
}
