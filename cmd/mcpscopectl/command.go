// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcpscope/mcpscope/internal/cli"
)

// spec is a command, in words.
type spec struct {
	use, short, long string
	also             string // words that people try for it
	examples         string // command lines, indented
	operands         cobra.CompletionFunc
}

// status is the exit status of a command.
type status int

func (s status) Error() string { return "exit status " + strconv.Itoa(int(s)) }

// command makes a command; run returns its exit status. One without completion of operands takes
// none.
func command(s spec, run func(operands []string) int) *cobra.Command {
	c := &cobra.Command{
		Use: s.use, Short: s.short, Long: s.long, Example: s.examples,
		SuggestFor:            strings.Fields(s.also),
		DisableFlagsInUseLine: true, ValidArgsFunction: s.operands,
		RunE: func(_ *cobra.Command, operands []string) error {
			if n := run(operands); n != cli.ExitOK {
				return status(n)
			}
			return nil
		},
	}
	if s.operands == nil {
		c.Args = noOperands
		c.ValidArgsFunction = cobra.NoFileCompletions
	}
	c.Flags().SortFlags = false
	return c
}

func noOperands(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("unexpected argument %q", args[0])
	}
	return nil
}

// readBy returns the setter of a flag whose value that function reads.
func readBy[T any](to *T, by func(string) (T, error)) func(string) error {
	return func(text string) (err error) {
		*to, err = by(text)
		return err
	}
}
