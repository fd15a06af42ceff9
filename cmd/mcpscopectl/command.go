// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/settings"
)

// spec is a command, in words.
type spec struct {
	use, short, long string
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
		Use: s.use, Short: s.short, Long: reflowed(s.long), Example: s.examples, DisableFlagsInUseLine: true, ValidArgsFunction: s.operands,
		RunE: func(_ *cobra.Command, operands []string) error {
			if n := run(operands); n != cli.ExitOK {
				return status(n)
			}
			return nil
		},
	}
	if s.operands == nil {
		c.Args, c.ValidArgsFunction = noOperands, cobra.NoFileCompletions
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

// newRoot has all commands, in the order of their use.
func newRoot(io cli.Stdio) *cobra.Command {
	root := &cobra.Command{Use: "mcpscope", Short: "run MCP servers in control groups, and leave nothing of them behind", Long: reflowed(about), Example: overviewExamples}
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetHelpTemplate(helpTemplate)
	root.SetOut(io.Out)
	root.SetErr(io.Err)
	cobra.EnableCommandSorting = false
	root.AddCommand(
		withSettings(settings.Run), withSettings(settings.Gateway), lsCommand(io), topCommand(io), inspectCommand(io), stopCommand(io),
		freezeCommand(io), thawCommand(io), setCommand(io), logsCommand(io), metricsCommand(io),
		sweepCommand(io), detachCommand(io), wrapCommand(io), unwrapCommand(io), doctorCommand(io), unitsCommand(io),
		versionCommand(io), manCommand(io), removalCommand(io),
	)
	root.SetHelpCommand(helpCommand(io))
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd("completion")
	return root
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

// readBy is for a flag whose value that function reads.
func readBy[T any](to *T, by func(string) (T, error)) func(string) error {
	return func(text string) (err error) {
		*to, err = by(text)
		return err
	}
}

// wrong says what is wrong with a command line, and returns its status.
func wrong(c *cobra.Command, err error, io cli.Stdio) int {
	return io.Mistake(c.Name(), clearer(err).Error())
}

// clearer says what package pflag says as run says it.
func clearer(err error) error {
	var unknown *pflag.NotExistError
	var valueless *pflag.ValueRequiredError
	var invalid *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown):
		return fmt.Errorf("unknown flag %q", settings.Dashes(unknown.GetSpecifiedName()))
	case errors.As(err, &valueless):
		return fmt.Errorf("flag %s needs a value", settings.Dashes(valueless.GetSpecifiedName()))
	case errors.As(err, &invalid):
		return fmt.Errorf("%s %q: %w", settings.Dashes(invalid.GetFlag().Name), invalid.GetValue(), invalid.Unwrap())
	}
	return err
}
