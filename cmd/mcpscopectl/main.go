// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Command mcpscopectl contains every command of mcpscope but run. Users call it by the name of the runner,
// which executes it, so it prints as "mcpscope".
package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcpscope/mcpscope/internal/cli"
	gw "github.com/mcpscope/mcpscope/internal/gateway"
	"github.com/mcpscope/mcpscope/internal/leaks"
	"github.com/mcpscope/mcpscope/internal/similar"
)

func main() {
	os.Exit(run(os.Args[1:], cli.Stdio{Out: os.Stdout, Err: os.Stderr}))
}

// early are the commands that become, or stand beside, another program: they read their own command
// lines, as the runner does.
func early(name string) func(args []string, io cli.Stdio) int {
	switch name {
	case "run", "gateway":
		return func(args []string, io cli.Stdio) int { return runRunner(name, args, io) }
	case gw.ConfiguredCommand:
		return configuredCommand
	case leaks.ConfigurationsCommand:
		return configurationsCommand
	case gw.CheckCommand:
		return gatewayCheckCommand
	}
	return nil
}

func run(args []string, to cli.Stdio) int {
	io, end := to.Checked()
	return end(dispatch(args, io))
}

func dispatch(args []string, io cli.Stdio) int {
	switch {
	case len(args) == 0 || cli.IsHelp(args[0]):
		args = []string{"help"}
	case args[0] == "-version" || args[0] == "--version":
		args = []string{"version"}
	}
	if command := early(args[0]); command != nil {
		return command(args[1:], io)
	}
	root := newRoot(io)
	if !isCommand(root, args[0]) {
		fmt.Fprintf(io.Err, "mcpscope: unknown command %q\n", args[0])
		io.Hint(hintForCommand(root, args[0]))
		return cli.ExitUsage
	}
	return execute(root, args, io)
}

func execute(root *cobra.Command, args []string, io cli.Stdio) int {
	if !isCompletion(args[0]) { // cobra completes flags by its own parser
		c, words, err := setFlags(root, args)
		if err != nil {
			return statusOf(c, c.FlagErrorFunc()(c, err), io)
		}
		args = words
	}
	root.SetArgs(args)
	c, err := root.ExecuteC()
	return statusOf(c, err, io)
}

// statusOf returns the exit status of a command, and prints a mistake in its command line.
func statusOf(c *cobra.Command, err error, io cli.Stdio) int {
	var ended status
	switch {
	case errors.As(err, &ended):
		return int(ended)
	case err != nil:
		return io.Mistake(nameOf(c), err.Error())
	}
	return cli.ExitOK
}

// nameOf is the name of a command as it is typed behind that of the program.
func nameOf(c *cobra.Command) string {
	return strings.TrimPrefix(c.CommandPath(), c.Root().Name()+" ")
}

// hintForCommand returns what a person can have meant by a word that is no command.
func hintForCommand(root *cobra.Command, word string) string {
	near := root.SuggestionsFor(word)
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() && similar.Is(word, c.Name()) {
			near = append(near, c.Name())
		}
	}
	switch {
	case len(near) > 0:
		return "mcpscope " + near[0]
	case word == "-v" || word == "-V":
		return "mcpscope version"
	case strings.HasPrefix(word, "-"): // a flag is no program
		return "mcpscope help"
	}
	return fmt.Sprintf("mcpscope run -- %s …, or mcpscope help", cli.Word(word)) // it may be a program
}

// isCommand reports whether a command exists.
func isCommand(root *cobra.Command, name string) bool {
	c, _, err := root.Find([]string{name})
	return err == nil && c != root || isCompletion(name)
}

// isCompletion reports whether a command is one by which shells request completions.
func isCompletion(name string) bool { return strings.HasPrefix(name, cobra.ShellCompRequestCmd) }
