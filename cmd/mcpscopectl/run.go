// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/settings"
)

// runRunner executes a command of the runner. It returns only on failure.
func runRunner(name string, args []string, io cli.Stdio) int {
	runner, err := cli.FindRunner()
	if err == nil {
		var env []string
		if env, err = proc.Environ(); err == nil {
			err = syscall.Exec(runner, append([]string{runner, name}, args...), env)
		}
	}
	p := cli.Printer{Stdio: io}
	return p.Fail(cli.ExitOwnFailure, fmt.Sprintf("cannot %s: %v", name, err), "")
}

// withSettings returns a command for help, completion and man pages; function early runs it.
func withSettings(of settings.Command) *cobra.Command {
	text := settings.TextOf(of)
	c := command(spec{
		use: of.String() + " [flags] [--] COMMAND [ARG…]", short: text.Summary,
		examples: text.Examples, long: text.Before + text.After, operands: files,
	}, func([]string) int { return cli.ExitOwnFailure })
	c.Flags().SetInterspersed(false)
	for _, r := range settings.Rows(of) {
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

func (argument) String() string   { return "" }
func (argument) Set(string) error { return nil }
func (a argument) Type() string   { return string(a) }
