//go:build linux

package main

import (
	"flag"
	"fmt"
	"slices"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/wrapping"
)

const wrapUsage = `Usage: mcpscope wrap [CLIENT|FILE…] [--server NAME…] [--dry-run] [--yes] [--program PATH]

Puts 'mcpscope run --name NAME --' in front of the commands of servers in the configurations of
MCP clients: of those that are named, or of all that are found here. Everything else in a
file stays as it is, and 'mcpscope unwrap' gives back the old file to the byte. The old content is
kept beside it, as FILE.mcpscope-backup. Shows what it does, and asks before.

  --server NAME   only servers of this name; may be given more than once
  --dry-run       only show what would be changed
  --yes           do not ask
  --program PATH  the mcpscope that clients are to start (default: this one)

'mcpscope status' lists clients and servers, and why some are left alone.
`

// changeFlags are those of wrap and unwrap.
type changeFlags struct {
	servers     []string
	dryRun, yes bool
	program     string
	all         bool
}

func (f *changeFlags) set(fs *flag.FlagSet) {
	fs.Func("server", "", func(s string) error {
		f.servers = append(f.servers, s)
		return nil
	})
	fs.BoolVar(&f.dryRun, "dry-run", false, "")
	fs.BoolVar(&f.yes, "yes", false, "")
}

func (f *changeFlags) wants(server string) bool {
	return len(f.servers) == 0 || slices.Contains(f.servers, server)
}

func wrapCommand(args []string, io cli.Stdio) int {
	var f changeFlags
	fs := newFlags("wrap")
	f.set(fs)
	fs.StringVar(&f.program, "program", "", "")
	operands, done, status := parseArgs(fs, args, wrapUsage, io)
	if done {
		return status
	}
	program, err := installed(f.program)
	if err != nil {
		status := io.Cannot("wrap", err)
		fmt.Fprint(io.Err, "mcpscope: hint: make install, or name the program that is to stay: --program /usr/local/bin/mcpscope\n")
		return status
	}
	r := rewriting{flags: f, io: io, verb: "wrap"}
	r.edit = func(c *configured) (*wrapping.Change, error) { return c.reader.Wrap(c.document, program, f.wants) }
	r.after = func(s *wrapping.Server) string { return commandLine(s.Prefix(program)) }
	return r.run(operands)
}
