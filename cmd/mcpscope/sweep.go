//go:build linux

package main

import (
	"fmt"

	"github.com/mcpscope/mcpscope/scope"
)

const sweepUsage = `Usage: mcpscope sweep

Ends orphans: groups of servers whose launcher and supervisor were both killed, so
that nobody is left to end them. A server that is in use, or being started, is never
touched. Prints what was ended, a line each. Every start of a server does the same.
`

func sweepCommand(args []string, io stdio) int {
	if stop, status := noOperands(args, "sweep", sweepUsage, io); stop {
		return status
	}
	swept, err := scope.Sweep()
	for _, s := range swept {
		if s.Stuck != "" {
			fmt.Fprintf(io.err, "mcpscope: cannot end all of %q (%s): %s\n", oneLine(s.Name), s.ID, oneLine(s.Stuck))
			continue
		}
		fmt.Fprintf(io.out, "ended %s (%s)\n", oneLine(s.Name), s.ID)
	}
	if err != nil {
		fmt.Fprintf(io.err, "mcpscope: cannot sweep: %s\n", oneLine(err.Error()))
		if h := hint(err); h != "" {
			fmt.Fprintf(io.err, "mcpscope: hint: %s\n", h)
		}
		return exitFailure
	}
	return exitOK
}

// noOperands deals with the arguments of a command that takes none.
func noOperands(args []string, command, usage string, io stdio) (stop bool, status int) {
	switch {
	case len(args) == 0:
		return false, exitOK
	case isHelp(args[0]):
		fmt.Fprint(io.out, usage)
		return true, exitOK
	}
	fmt.Fprintf(io.err, "mcpscope: %s: unexpected argument %q\nmcpscope: hint: mcpscope help %s\n", command, args[0], command)
	return true, exitUsage
}

func isHelp(arg string) bool { return arg == "-h" || arg == "-help" || arg == "--help" }
