// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"github.com/spf13/cobra"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/manual"
	"github.com/mcpscope/mcpscope/internal/programs"
)

// manCommand returns mcpscope man, which make man, make reference and packages use.
func manCommand(stdio cli.Stdio) *cobra.Command {
	reference := false
	c := command(spec{
		use: "man DIR", short: "write man pages", long: `Write the man pages to DIR.`, operands: files,
	}, func(operands []string) int {
		if len(operands) != 1 {
			return stdio.Mistake("man", "no directory given")
		}
		if reference {
			if err := manual.WriteReference(newRoot(stdio), operands[0]); err != nil {
				return stdio.Cannot("write the reference", err)
			}
			return cli.ExitOK
		}
		if err := manual.Write(newRoot(stdio), programs.Version(), operands[0]); err != nil {
			return stdio.Cannot("write man pages", err)
		}
		return cli.ExitOK
	})
	c.Flags().BoolVar(&reference, "reference", false,
		"write docs/reference/commands.md and settings.md instead")
	c.Hidden = true
	return c
}
