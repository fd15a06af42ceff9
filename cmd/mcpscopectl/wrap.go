// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"github.com/spf13/cobra"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/clientconfig"
)

type wrapFlags struct {
	clientconfig.Choice
	program    string
	list, json bool
}

func wrapCommand(io cli.Stdio) *cobra.Command {
	var f wrapFlags
	c := command(spec{
		use: "wrap [CLIENT|FILE…] [flags]", short: "run the configured servers of clients under mcpscope",
		operands: clientsAndFiles,
		examples: `  mcpscope wrap --list
  mcpscope wrap claude-code --server github
`,
		long: `Puts 'mcpscope run --name NAME --' in front of the commands of servers in the
configurations of MCP clients: of those that are named, or of all that are
found. Every other byte of a file stays. The content without mcpscope is kept
below $XDG_STATE_HOME/mcpscope/backups (default
~/.local/state/mcpscope/backups). Shows the changes, and asks before it makes
them. Restart a running client to use them.

Looks in the home directory, in the working directory and in those above it up
to the top of its repository, and in every file that has a wrapped server and a
backup.

A server is bare, wrapped, not editable (with the reason) or broken: wrapped,
and the mcpscope in its command is gone. With --list the exit status is 1 if one
is broken, or if a file can't be read. YAML is not edited: the lines to write
are shown instead.`,
	}, func(operands []string) int { return f.run(operands, io) })
	addChange(c.Flags(), &f.Choice)
	c.Flags().StringVar(&f.program, "program", "",
		"the mcpscope that clients are to start (default: the one beside this): `PATH`")
	c.Flags().BoolVar(&f.list, "list", false, "change nothing: list clients, servers and their states")
	c.Flags().BoolVar(&f.json, "json", false, "with --list: one object")
	return c
}

func (f *wrapFlags) run(operands []string, io cli.Stdio) int {
	if f.list {
		return clientconfig.List(&f.Choice, f.json, operands, io)
	}
	if f.json {
		return io.Mistake("wrap", "--json needs --list")
	}
	program, err := clientconfig.Installed(f.program)
	if err != nil {
		return io.CannotWithHint("wrap", err,
			"install both programs where they stay, or name the one that does: mcpscope wrap --program PATH")
	}
	r := clientconfig.Rewriting{Choice: f.Choice, IO: io, Verb: "wrap", Program: program}
	return r.Run(operands)
}
