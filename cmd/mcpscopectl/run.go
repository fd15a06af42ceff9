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
		f := c.Flags().VarPF(&placeholder{r.Arg, r.Switch()}, r.Name, r.Short, r.Help)
		if r.Switch() {
			f.NoOptDefVal = "true"
		}
		switch {
		case r.Paths:
			_ = c.RegisterFlagCompletionFunc(r.Name, files) // it has that flag
		case len(r.Values) > 0:
			completes(c, r.Name, r.Values...)
		case !r.Switch():
			_ = c.RegisterFlagCompletionFunc(r.Name, cobra.NoFileCompletions) // as above
		}
	}
	return c
}

// placeholder is the value of a flag that is only shown and completed.
type placeholder struct {
	arg  string
	bool bool
}

func (s *placeholder) String() string { return "" }

func (s *placeholder) Set(string) error { return nil }

func (s *placeholder) Type() string {
	if s.bool {
		return "bool"
	}
	return s.arg
}

func (s *placeholder) IsBoolFlag() bool { return s.bool }
