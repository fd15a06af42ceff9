// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/settings"
)

// newRoot returns the root of all commands, in the order of the help.
func newRoot(io cli.Stdio) *cobra.Command {
	root := &cobra.Command{
		Use: "mcpscope", Short: "run MCP servers in control groups, and leave no process behind",
		Long: about, Example: overviewExamples,
	}
	root.SuggestionsMinimumDistance = 1
	root.SilenceErrors = true
	root.SilenceUsage = true
	root.SetHelpTemplate(helpTemplate)
	root.SetOut(io.Out)
	root.SetErr(io.Err)
	cobra.EnableCommandSorting = false
	root.AddCommand(
		withSettings(settings.Run), withSettings(settings.Gateway),
		lsCommand(io), topCommand(io), inspectCommand(io), stopCommand(io),
		freezeCommand(io), thawCommand(io), setCommand(io), logsCommand(io), metricsCommand(io),
		sweepCommand(io), detachCommand(io), wrapCommand(io), unwrapCommand(io),
		configCommand(io), doctorCommand(io), unitsCommand(io),
		versionCommand(io), manCommand(io),
	)
	root.SetHelpCommand(helpCommand(io))
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd("completion")
	completion, _, _ := root.Find([]string{"completion"}) // made above
	completion.Short = "print a completion script for a shell"
	completion.Long = `Print a completion script for bash, zsh, fish or powershell, for example with
'mcpscope completion bash'. Packages install those of bash, zsh and fish.`
	completion.Args = func(_ *cobra.Command, shells []string) error {
		if len(shells) > 0 { // known shells are commands of their own
			return fmt.Errorf("there is no script for the shell %q", shells[0])
		}
		return nil
	}
	completion.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	return root
}
