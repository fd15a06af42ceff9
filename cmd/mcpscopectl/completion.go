// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/clients"
	"github.com/mcpscope/mcpscope/internal/settings"
	"github.com/mcpscope/mcpscope/internal/units"
)

// What follows the command of a server is completed as that command's own: cobra can't, shells can.
// These scripts come after cobra's, and ask commandAt where the command is.
//
//go:embed completion.bash
var bashMore string

//go:embed completion.zsh
var zshMore string

//go:embed completion.fish
var fishMore string

func completionCommand(io cli.Stdio) *cobra.Command {
	return command(spec{
		use: "completion bash|zsh|fish", short: "print a completion script for bash, zsh or fish", operands: choice("bash", "zsh", "fish"),
		examples: `  source <(mcpscope completion bash)
  source <(mcpscope completion zsh)
  mcpscope completion fish | source
`,
		long: `Prints a completion script; the examples are for one shell. For every shell, write
it to /usr/local/share/bash-completion/completions/mcpscope,
/usr/local/share/zsh/site-functions/_mcpscope or
/usr/share/fish/vendor_completions.d/mcpscope.fish.`,
	}, func(operands []string) int {
		if len(operands) != 1 {
			return completionMistake(io, "which shell?")
		}
		script, err := completionScript(newRoot(io), operands[0])
		switch {
		case err != nil:
			return io.Cannot("write the script", err)
		case script == "":
			return completionMistake(io, fmt.Sprintf("no script for %q", operands[0]))
		}
		fmt.Fprint(io.Out, script)
		return cli.ExitOK
	})
}

func completionMistake(io cli.Stdio, what string) int {
	fmt.Fprintf(io.Err, "mcpscope: completion: %s\n", what)
	io.Hint("mcpscope completion bash|zsh|fish")
	return cli.ExitUsage
}

// completionScript is cobra's, with ours behind it.
func completionScript(root *cobra.Command, shell string) (string, error) {
	var script bytes.Buffer
	switch shell {
	case "bash":
		err := root.GenBashCompletionV2(&script, true)
		return script.String() + bashMore, err
	case "zsh":
		err := root.GenZshCompletion(&script)
		// the function of that name is ours, and calls cobra's
		text := strings.Replace(script.String(), "_mcpscope()", "__mcpscope_cobra()", 1)
		text, _, _ = strings.Cut(text, "# don't run the completion function when being source-ed")
		return strings.Replace(text, "#compdef mcpscope\ncompdef _mcpscope mcpscope\n", "#compdef mcpscope mcpscopectl\n", 1) + zshMore, err
	case "fish":
		err := root.GenFishCompletion(&script, true)
		return script.String() + fishMore, err
	}
	return "", nil
}

// commandAt is a hidden command for completion scripts: of the words behind the program's name, up
// to the one that is being completed, it prints where the command of run or gateway is, counted
// from the program's name. It prints nothing where a flag is being completed.
const commandAt = "__command"

func commandAtCommand(words []string, io cli.Stdio) int {
	if len(words) == 0 {
		return cli.ExitUsage
	}
	for _, of := range []settings.Command{settings.Run, settings.Gateway} {
		if words[0] == of.String() {
			if at := settings.CommandAt(of, words[1:]); at >= 0 {
				fmt.Fprintln(io.Out, at+2)
			}
		}
	}
	return cli.ExitOK
}

// harmless is a word that no shell takes for anything else: a server's name may be anything.
func harmless(s string) bool {
	return s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._@:+-") == "" && s[0] != '-'
}

// choice completes one of some words.
func choice(words ...string) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return words, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// completes gives a flag values to complete.
func completes(c *cobra.Command, flag string, values ...string) {
	_ = c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveKeepOrder)) // it has that flag
}

func files(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveDefault
}

// servers completes the names and ids of the caller's servers.
func servers(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	all, _ := (&filter{}).list() // what can be seen can be completed
	defer closeAll(all)
	var words []string
	for _, s := range all {
		if harmless(s.Name) && !slices.Contains(words, s.Name) {
			words = append(words, s.Name)
		}
	}
	for _, s := range all {
		if harmless(s.ID) && harmless(s.Name) {
			words = append(words, s.ID+"\t"+s.Name)
		}
	}
	return words, cobra.ShellCompDirectiveNoFileComp
}

// clientNames completes the clients of servers that run.
func clientNames(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	all, _ := (&filter{}).list() // as above
	defer closeAll(all)
	var words []string
	for _, s := range all {
		if name := s.Client.Name; harmless(name) && !slices.Contains(words, name) {
			words = append(words, name)
		}
	}
	return words, cobra.ShellCompDirectiveNoFileComp
}

// clientsAndFiles completes what has a configuration.
func clientsAndFiles(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	var words []string
	for _, c := range clients.All() {
		words = append(words, c.ID+"\t"+c.Title)
	}
	return words, cobra.ShellCompDirectiveDefault
}

func commandNames(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	var words []string
	for _, sub := range c.Root().Commands() {
		if !sub.Hidden {
			words = append(words, sub.Name()+"\t"+sub.Short)
		}
	}
	return words, cobra.ShellCompDirectiveNoFileComp
}

func unitOperands(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	words := []string{gateway}
	for _, u := range units.All(units.User, units.Programs{}) {
		words = append(words, u.Name)
	}
	return words, cobra.ShellCompDirectiveNoFileComp
}

func configOperands(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	switch {
	case len(args) == 0:
		return []string{"show", "check"}, cobra.ShellCompDirectiveNoFileComp
	case args[0] == "check":
		return nil, cobra.ShellCompDirectiveDefault
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}
