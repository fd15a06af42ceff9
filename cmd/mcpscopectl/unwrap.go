// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mcpscope/mcpscope/internal/cli"
)

func unwrapCommand(stdio cli.Stdio) *cobra.Command {
	var f choice
	c := command(spec{
		use: "unwrap [CLIENT|FILE…] [flags]", short: "undo wrap", operands: clientsAndFiles,
		examples: `  mcpscope unwrap --yes
  mcpscope unwrap claude-code --server github
`,
		long: `Remove 'mcpscope run … --' from the server commands in the configurations of MCP
clients: of the clients and files that you name, or of all files with a wrapped
server. Shows the changes and asks before it writes. The diff of --dry-run has …
in place of comments and all values but commands, so it contains no keys.

A file that you haven't edited since 'mcpscope wrap' is restored byte for byte.
If you edited one place of it, the rest is restored, and your edit stays. After
edits in several places, only the commands change. The backup is removed, unless
it has a server that the file doesn't have or, after edits in several places,
there may be comments. Then its path is printed, since it may contain keys.
Restart running clients to use the change.

The exit status is 1 if a server stays wrapped. Unreadable files are an error
only if you named or wrapped them.`,
	}, func(operands []string) int {
		r := rewriting{choice: f, stdio: stdio, verb: "unwrap"}
		return r.run(operands)
	})
	addChange(c.Flags(), &f)
	return c
}

// addChange adds the common flags of wrap and unwrap.
func addChange(fs *pflag.FlagSet, f *choice) {
	fs.Func("server", "only servers named `NAME`; may be repeated", func(s string) error {
		f.servers = append(f.servers, s)
		return nil
	})
	fs.BoolVar(&f.yes, "yes", false, "do not ask")
	fs.BoolVar(&f.dryRun, "dry-run", false, "print a diff of each file without its keys, and change none")
}
