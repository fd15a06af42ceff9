// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/clientconfig"
)

func unwrapCommand(io cli.Stdio) *cobra.Command {
	var f clientconfig.Choice
	var all bool
	c := command(spec{
		use: "unwrap CLIENT|FILE… | --all", short: "undo wrap", operands: clientsAndFiles,
		examples: `  mcpscope unwrap --all --dry-run
  mcpscope unwrap claude-code --server github
`,
		long: `Takes 'mcpscope run … --' away from the commands of servers in the configurations of
MCP clients. A file that nobody has changed since 'mcpscope wrap' becomes what it was
before, to the byte, and its backup is removed. In a changed file the commands change
and nothing else, and the backup stays. Restart a running client to use the change.`,
	}, func(operands []string) int {
		switch {
		case all && len(operands) > 0:
			return io.Mistake("unwrap", "either --all or clients and files")
		case !all && len(operands) == 0:
			return io.Mistake("unwrap", "which client or file? --all is every one")
		}
		r := clientconfig.Rewriting{Choice: f, IO: io, Verb: "unwrap"}
		return r.Run(operands)
	})
	c.Flags().BoolVar(&all, "all", false,
		"every file with a wrapped server: those of clients, and those that have a backup")
	addChange(c.Flags(), &f)
	return c
}

// addChange adds the flags that wrap and unwrap have in common.
func addChange(fs *pflag.FlagSet, f *clientconfig.Choice) {
	fs.Func("server", "only servers of this `NAME`; may be given more than once", func(s string) error {
		f.Servers = append(f.Servers, s)
		return nil
	})
	fs.BoolVar(&f.DryRun, "dry-run", false, "only show what would be changed")
	fs.BoolVar(&f.Yes, "yes", false, "do not ask")
}
