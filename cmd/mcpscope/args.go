//go:build linux

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
)

// newFlags makes the flags of a command other than run.
func newFlags(command string) *flag.FlagSet {
	fs := flag.NewFlagSet(command, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	return fs
}

// parseArgs takes flags before, between and behind the operands, as people write them.
// done says that there is nothing more to do, for help was asked for or a mistake was made.
func parseArgs(fs *flag.FlagSet, args []string, usage string, io stdio) (operands []string, done bool, status int) {
	for {
		err := fs.Parse(args)
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprint(io.out, usage)
			return nil, true, exitOK
		}
		if err != nil {
			return nil, true, mistake(io, fs.Name(), clearer(err).Error())
		}
		rest := fs.Args()
		if ended := len(args) > len(rest) && args[len(args)-len(rest)-1] == "--"; ended || len(rest) == 0 {
			return append(operands, rest...), false, exitOK
		}
		operands, args = append(operands, rest[0]), rest[1:]
	}
}

// parseFlags is parseArgs for a command that takes no operands.
func parseFlags(fs *flag.FlagSet, args []string, usage string, io stdio) (done bool, status int) {
	operands, done, status := parseArgs(fs, args, usage, io)
	if len(operands) > 0 {
		return true, mistake(io, fs.Name(), fmt.Sprintf("unexpected argument %q", operands[0]))
	}
	return done, status
}

// mistake says what is wrong with the arguments.
func mistake(io stdio, command, what string) int {
	fmt.Fprintf(io.err, "mcpscope: %s: %s\nmcpscope: hint: mcpscope help %s\n", command, oneLine(what), command)
	return exitUsage
}

// cannot says that a command failed.
func cannot(io stdio, goal string, err error) int {
	fmt.Fprintf(io.err, "mcpscope: cannot %s: %s\n", goal, errorLine(err))
	return exitFailure
}

func isHelp(arg string) bool { return arg == "-h" || arg == "-help" || arg == "--help" }
