// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"github.com/spf13/cobra"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/wrapping"
)

func unwrapCommand(io cli.Stdio) *cobra.Command {
	var f changeFlags
	c := command(spec{
		use: "unwrap CLIENT|FILE… | --all", short: "take it away again", operands: clientsAndFiles,
		examples: `  mcpscope unwrap --all --dry-run
  mcpscope unwrap claude-code --server github
`,
		long: `Takes 'mcpscope run … --' away from the commands of servers in the configurations of
MCP clients, so that a file is what it was before 'mcpscope wrap'. A backup that says
the same as the file then is removed; else the old content is kept as one. A client
that runs goes on with what it has read: restart it.`,
	}, func(operands []string) int { return f.unwrap(operands, io) })
	c.Flags().BoolVar(&f.all, "all", false, "every client that is found here, and every project that their files name")
	f.set(c.Flags())
	return c
}

func (f *changeFlags) unwrap(operands []string, io cli.Stdio) int {
	switch {
	case f.all && len(operands) > 0:
		return io.Mistake("unwrap", "either --all or clients and files")
	case !f.all && len(operands) == 0:
		return io.Mistake("unwrap", "which client or file? --all is every one")
	}
	r := rewriting{flags: *f, io: io, verb: "unwrap"}
	r.edit = func(c *configured) (*wrapping.Change, error) { return c.reader.Unwrap(c.document, f.wants) }
	r.after = func(*wrapping.Server) string { return "" }
	return r.run(operands)
}
