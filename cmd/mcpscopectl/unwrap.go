//go:build linux

package main

import (
	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/wrapping"
)

const unwrapUsage = `Usage: mcpscope unwrap CLIENT|FILE… | --all  [--server NAME…] [--dry-run] [--yes]

Takes 'mcpscope run … --' away from the commands of servers in the configurations of MCP clients,
so that a file is what it was before 'mcpscope wrap'. A backup that says the same as the file
then is removed; else the old content is kept as FILE.mcpscope-backup.

  --all          every client that is found here
  --server NAME  only servers of this name; may be given more than once
  --dry-run      only show what would be changed
  --yes          do not ask
`

func unwrapCommand(args []string, io cli.Stdio) int {
	var f changeFlags
	fs := newFlags("unwrap")
	f.set(fs)
	fs.BoolVar(&f.all, "all", false, "")
	operands, done, status := parseArgs(fs, args, unwrapUsage, io)
	switch {
	case done:
		return status
	case f.all && len(operands) > 0:
		return io.Mistake("unwrap", "either --all or clients and files")
	case !f.all && len(operands) == 0:
		return io.Mistake("unwrap", "which client or file? --all is every one")
	}
	r := rewriting{flags: f, io: io, verb: "unwrap"}
	r.edit = func(c *configured) (*wrapping.Change, error) { return c.reader.Unwrap(c.document, f.wants) }
	r.after = func(*wrapping.Server) string { return "" }
	return r.run(operands)
}
