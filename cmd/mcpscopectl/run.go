// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/proc"
	"github.com/mcpscope/mcpscope/internal/settings"
)

// runRunner becomes the runner. It returns only if it can't.
func runRunner(args []string, io cli.Stdio) int {
	runner, err := cli.FindRunner()
	if err == nil {
		var env []string
		if env, err = proc.Environ(); err == nil {
			err = syscall.Exec(runner, append([]string{runner, "run"}, args...), env)
		}
	}
	p := cli.Printer{Stdio: io}
	return p.Fail(cli.ExitOwnFailure, fmt.Sprintf("cannot run: %v", err), "")
}

// withSettings is a command as helps, completions and man pages see it; it is run early.
func withSettings(of settings.Command) *cobra.Command {
	c := command(spec{
		use: of.String() + " [flags] [--] COMMAND [ARG…]", short: settings.Summary(of), examples: settings.Examples(of), long: settings.Long(of), operands: files,
	}, func([]string) int { return cli.ExitOwnFailure })
	c.Flags().SetInterspersed(false)
	for _, r := range settings.Rows(of) {
		if r.Switch() {
			c.Flags().BoolP(r.Name, r.Short, false, r.Help)
			continue
		}
		f := c.Flags().VarPF(argument(r.Arg), r.Name, r.Short, r.Help)
		complete := cobra.FixedCompletions(r.Values, cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveKeepOrder)
		if r.Paths {
			complete = files
		}
		_ = c.RegisterFlagCompletionFunc(f.Name, complete) // it has that flag
	}
	return c
}

// argument is the value of a flag that is only shown and completed.
type argument string

func (argument) String() string   { return "" }
func (argument) Set(string) error { return nil }
func (a argument) Type() string   { return string(a) }
