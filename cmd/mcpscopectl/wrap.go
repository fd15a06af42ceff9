// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/wrapping"
)

// changeFlags are those of wrap and unwrap.
type changeFlags struct {
	servers     []string
	dryRun, yes bool
	program     string
	all         bool
}

func (f *changeFlags) set(fs *pflag.FlagSet) {
	fs.Func("server", "only servers of this `NAME`; may be given more than once", func(s string) error {
		f.servers = append(f.servers, s)
		return nil
	})
	fs.BoolVar(&f.dryRun, "dry-run", false, "only show what would be changed")
	fs.BoolVar(&f.yes, "yes", false, "do not ask")
}

func (f *changeFlags) wants(server string) bool {
	return len(f.servers) == 0 || slices.Contains(f.servers, server)
}

func wrapCommand(io cli.Stdio) *cobra.Command {
	var f changeFlags
	c := command(spec{
		use: "wrap [CLIENT|FILE…] [flags]", short: "put mcpscope in front of them", operands: clientsAndFiles,
		examples: `  mcpscope wrap --dry-run
  mcpscope wrap claude-code --server github
`,
		long: `Puts 'mcpscope run --name NAME --' in front of the commands of servers in the
configurations of MCP clients: of those that are named, or of all that are found here.
Everything else in a file stays as it is, and 'mcpscope unwrap' gives back the old
file to the byte. The old content is kept below $XDG_STATE_HOME/mcpscope/backups (or
~/.local/state). Shows what it does, and asks before. A client that runs goes on with
what it has read: restart it.

'mcpscope status' lists clients and servers, and why some are left alone.`,
	}, func(operands []string) int { return f.wrap(operands, io) })
	f.set(c.Flags())
	c.Flags().StringVar(&f.program, "program", "", "the mcpscope that clients are to start (default: the one beside this): `PATH`")
	return c
}

func (f *changeFlags) wrap(operands []string, io cli.Stdio) int {
	program, err := installed(f.program)
	if err != nil {
		return io.CannotWithHint("wrap", err, "install both programs where they stay, or name the one that does: mcpscope wrap --program PATH")
	}
	r := rewriting{flags: *f, io: io, verb: "wrap"}
	r.edit = func(c *configured) (*wrapping.Change, error) { return c.reader.Wrap(c.document, program, f.wants) }
	r.after = func(s *wrapping.Server) string { return commandLine(s.Prefix(program)) }
	return r.run(operands)
}
