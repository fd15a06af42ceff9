//go:build linux

package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/mcpscope/mcpscope/internal/cli"
)

// manCommand is for make man and for packages.
func manCommand(io cli.Stdio) *cobra.Command {
	c := command(spec{
		use: "man DIR", short: "write man pages", long: "Writes a man page for each command into DIR.", operands: files,
	}, func(operands []string) int {
		if len(operands) != 1 {
			return io.Mistake("man", "where to? Give a directory")
		}
		root := newRoot(io)
		root.DisableAutoGenTag = true // the day would differ from build to build
		if err := doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "mcpscope " + ownVersion(), Manual: "mcpscope"}, operands[0]); err != nil {
			return io.Cannot("write man pages", err)
		}
		return cli.ExitOK
	})
	c.Hidden = true
	return c
}
