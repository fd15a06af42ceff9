// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/clientconfig"
)

func addChange(fs *pflag.FlagSet, f *clientconfig.Choice) {
	fs.Func("server", "only servers of this `NAME`; may be given more than once", func(s string) error {
		f.Servers = append(f.Servers, s)
		return nil
	})
	fs.BoolVar(&f.DryRun, "dry-run", false, "only show what would be changed")
	fs.BoolVar(&f.Yes, "yes", false, "do not ask")
}

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
configurations of MCP clients: of those that are named, or of all that are found. Every
other byte of a file stays. The content without mcpscope is kept below
$XDG_STATE_HOME/mcpscope/backups (default ~/.local/state/mcpscope/backups). Shows the
changes, and asks before it makes them. Restart a running client to use them.

Looks in the home directory, in the working directory and in those above it up to the
top of its repository, and in every file that has a wrapped server and a backup.

A server is bare, wrapped, not editable (with the reason) or broken: wrapped, and the
mcpscope in its command is gone. With --list the exit status is 1 if one is broken, or
if a file can't be read. YAML is not edited: the lines to write are shown instead.`,
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
