// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/programs"
	"github.com/mcpscope/mcpscope/internal/settings"
)

// runRunner executes a command of the runner. It returns only on failure.
func runRunner(name string, args []string, stdio cli.Stdio) int {
	err := execRunner(name, args)
	p := cli.Printer{Stdio: stdio}
	return p.Fail(cli.ExitOwnFailure, fmt.Sprintf("cannot %s: %v", name, err), "")
}

// execRunner returns only on failure.
func execRunner(name string, args []string) error {
	runner, err := programs.FindRunner()
	if err != nil {
		return err
	}
	env, err := proc.Environ()
	if err != nil {
		return err
	}
	return syscall.Exec(runner, append([]string{runner, name}, args...), env)
}

// withSettings returns a command for help, completion and man pages; function early runs it.
func withSettings(name settings.Command) *cobra.Command {
	text := settings.TextOf(name)
	c := command(spec{
		use: name.String() + " [flags] [--] COMMAND [ARG…]", short: text.Summary,
		examples: text.Examples, long: text.Before + text.After, operands: files,
	}, func([]string) int { return cli.ExitOwnFailure })
	endFlagsAtOperand(c)
	for _, r := range settings.Rows(name) {
		if r.Switch() {
			c.Flags().BoolP(r.Name, r.Short, false, r.Help)
			continue
		}
		f := c.Flags().VarPF(argument(r.Arg), r.Name, r.Short, r.Help)
		const directive = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
		complete := cobra.FixedCompletions(r.Values, directive)
		if r.Paths {
			complete = files
		}
		_ = c.RegisterFlagCompletionFunc(f.Name, complete) // it has that flag
	}
	return c
}

// argument is the value of a flag that is displayed and completed, but never parsed.
type argument string

// String returns no default.
func (argument) String() string { return "" }

// Set accepts any value.
func (argument) Set(string) error { return nil }

// Type is the value in the help of the flag.
func (a argument) Type() string { return string(a) }
