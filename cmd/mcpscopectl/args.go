//go:build linux

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/settings"
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
func parseArgs(fs *flag.FlagSet, args []string, usage string, io cli.Stdio) (operands []string, done bool, status int) {
	for {
		err := fs.Parse(args)
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprint(io.Out, usage)
			return nil, true, cli.ExitOK
		}
		if err != nil {
			return nil, true, io.Mistake(fs.Name(), clearer(err).Error())
		}
		rest := fs.Args()
		if ended := len(args) > len(rest) && args[len(args)-len(rest)-1] == "--"; ended || len(rest) == 0 {
			return append(operands, rest...), false, cli.ExitOK
		}
		operands, args = append(operands, rest[0]), rest[1:]
	}
}

// parseFlags is parseArgs for a command that takes no operands.
func parseFlags(fs *flag.FlagSet, args []string, usage string, io cli.Stdio) (done bool, status int) {
	operands, done, status := parseArgs(fs, args, usage, io)
	if len(operands) > 0 {
		return true, io.Mistake(fs.Name(), fmt.Sprintf("unexpected argument %q", operands[0]))
	}
	return done, status
}

// clearer says what package flag says with the flag spelled as people write it.
func clearer(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if rest, ok := strings.CutPrefix(text, "flag provided but not defined: -"); ok {
		return fmt.Errorf("unknown flag %q", settings.Dashes(rest))
	}
	if rest, ok := strings.CutPrefix(text, "flag needs an argument: -"); ok {
		return fmt.Errorf("flag %s needs a value", settings.Dashes(rest))
	}
	if rest, ok := strings.CutPrefix(text, "invalid value "); ok {
		if value, rest, ok := strings.Cut(rest, " for flag -"); ok {
			if fl, why, ok := strings.Cut(rest, ": "); ok {
				return fmt.Errorf("%s %s: %s", settings.Dashes(fl), value, why)
			}
		}
	}
	return err
}
