// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mcpscope/mcpscope/internal/flags"
)

// setFlags sets the flags of a command line by the parser of the runner. It returns the command, and the
// words that are left for cobra, which has the flags for helps, completions and man pages.
func setFlags(root *cobra.Command, args []string) (c *cobra.Command, words []string, err error) {
	c, rest, err := root.Find(args)
	if err != nil {
		return c, nil, err
	}
	set := flags.SetAmongOperands
	if hasFlagsFirst(c) {
		set = flags.SetBeforeOperands
	}
	operands, err := set(flagsOf(c), rest)
	path := strings.Fields(c.CommandPath())[1:]
	if errors.Is(err, flags.ErrHelp) {
		return c, append(path, "--help"), nil
	}
	return c, slices.Concat(path, []string{"--"}, operands), err
}

// flagsOf returns the flags of a command.
func flagsOf(c *cobra.Command) []flags.Flag {
	var known []flags.Flag
	c.Flags().VisitAll(func(f *pflag.Flag) {
		known = append(known, flags.Flag{
			Name: f.Name, Short: f.Shorthand, Switch: isSwitch(f),
			Set: func(value string) error { return setFlag(c.Flags(), f, value) },
		})
	})
	return known
}

// isSwitch reports whether a flag needs no value.
func isSwitch(f *pflag.Flag) bool { return f.NoOptDefVal != "" }

// setFlag leaves out the flag and the value that pflag puts before each error: our parser does that.
func setFlag(fs *pflag.FlagSet, f *pflag.Flag, value string) error {
	if isSwitch(f) {
		if _, err := flags.ParseSwitch(value); err != nil {
			return err
		}
	}
	err := fs.Set(f.Name, value)
	if invalid, is := errors.AsType[*pflag.InvalidValueError](err); is {
		return invalid.Unwrap()
	}
	return err
}

// flagsFirst marks a command whose flags end at the first operand.
const flagsFirst = "flags-first"

// endFlagsAtOperand has the flags of a command end at its first operand: the operands are the command line
// of another program.
func endFlagsAtOperand(c *cobra.Command) {
	c.Flags().SetInterspersed(false) // for completions
	c.Annotations = map[string]string{flagsFirst: "true"}
}

func hasFlagsFirst(c *cobra.Command) bool { return c.Annotations[flagsFirst] != "" }
