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
	c := command(spec{
		use: "unwrap [CLIENT|FILE…] [flags]", short: "undo wrap", operands: clientsAndFiles,
		examples: `  mcpscope unwrap --yes
  mcpscope unwrap claude-code --server github
`,
		long: `Takes 'mcpscope run … --' away from the commands of servers in the
configurations of MCP clients: of those that are named, or of all files with a
wrapped server. Shows the changes, and asks before it makes them. A file that
nobody has changed since 'mcpscope wrap' becomes what it was before, to the
byte, and its backup is removed. In a changed file the commands change and
nothing else, and the backup stays. Restart a running client to use the change.`,
	}, func(operands []string) int {
		r := clientconfig.Rewriting{Choice: f, IO: io, Verb: "unwrap"}
		return r.Run(operands)
	})
	addChange(c.Flags(), &f)
	return c
}

// addChange adds the flags that wrap and unwrap have in common.
func addChange(fs *pflag.FlagSet, f *clientconfig.Choice) {
	fs.Func("server", "only servers of this `NAME`; may be given more than once", func(s string) error {
		f.Servers = append(f.Servers, s)
		return nil
	})
	fs.BoolVar(&f.Yes, "yes", false, "do not ask")
}
