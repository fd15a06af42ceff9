// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/mcpscope/mcpscope/internal/cli"
)

// manCommand is for make man and for packages.
func manCommand(io cli.Stdio) *cobra.Command {
	c := command(spec{
		use: "man DIR", short: "write man pages", long: "Writes the man pages into DIR.", operands: files,
	}, func(operands []string) int {
		if len(operands) != 1 {
			return io.Mistake("man", "where to? Give a directory")
		}
		for name, text := range manPages(newRoot(io)) {
			if err := os.WriteFile(filepath.Join(operands[0], name), []byte(text), 0o644); err != nil {
				return io.Cannot("write man pages", err)
			}
		}
		return cli.ExitOK
	})
	c.Hidden = true
	return c
}
