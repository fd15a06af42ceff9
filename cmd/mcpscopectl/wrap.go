// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/clientconfig"
	"github.com/mcpscope/mcpscope/internal/clientconfig/wrapping"
	"github.com/mcpscope/mcpscope/internal/diagnose"
	"github.com/mcpscope/mcpscope/internal/leftover"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/show"
)

type wrapFlags struct {
	choice
	program    string
	idleFreeze string
	shared     bool
	check      bool
	list, json bool
}

func wrapCommand(io cli.Stdio) *cobra.Command {
	var f wrapFlags
	c := command(spec{
		use: "wrap [CLIENT|FILE…] [flags]", short: "run the configured servers of clients under mcpscope",
		operands: clientsAndFiles,
		examples: `  mcpscope wrap --list
  mcpscope wrap claude-code
  mcpscope wrap claude-code --server github
  mcpscope wrap --idle-freeze 10m
`,
		long: `Put 'mcpscope run --name NAME --' in front of the server commands in the
configurations of MCP clients: of the given clients and files, or of all that
are found. CLIENT is a name such as claude-code, codex or cursor. All other
bytes of a file stay the same. The content before the change is kept in
$XDG_STATE_HOME/mcpscope/backups (default ~/.local/state/mcpscope/backups).
Shows the changes, and asks before writing. Restart running clients to use the
change. mcpscope unwrap undoes it.

Servers that are wrapped already get the flags of this call, and keep those that
were written by hand. A broken server gets this mcpscope.

Configurations are searched in the home directory, and in the working directory
and its parents up to the top of the repository. A file with a wrapped server
and a backup is found anywhere. A file of a project that git tracks, or may
track, stays as it is, because other people get it: name the file, or use
--shared.

A server is bare, wrapped, not editable (with a reason) or broken. The command
of a broken server contains an mcpscope that does not exist, or flags that it
refuses. With --list, the exit status is 1 if a server is broken or a file
cannot be read. With --check, it is also 1 if wrap would change a file; a server
that wrap leaves alone does not count. The diff of --dry-run shows lines of the
file, which may contain keys. In YAML, mcpscope
edits no server with an anchor or a command of several lines: it prints the
lines to write.`,
	}, func(operands []string) int { return f.run(operands, io) })
	addChange(c.Flags(), &f.choice)
	c.Flags().StringVar(&f.program, "program", "",
		"`PATH` of the mcpscope that clients start (default: next to mcpscopectl)")
	c.Flags().StringVar(&f.idleFreeze, "idle-freeze", "",
		"freeze each server after `D` without use: 10m (see mcpscope help run)")
	c.Flags().BoolVar(&f.shared, "shared", false, "also change files of projects that git tracks")
	c.Flags().BoolVar(&f.check, "check", false, "change nothing; exit with 1 if wrap would change a file")
	c.Flags().BoolVar(&f.list, "list", false, "list clients, servers and their states; change nothing")
	c.Flags().BoolVar(&f.json, "json", false, "with --list: print one JSON object")
	return c
}

func (f *wrapFlags) run(operands []string, io cli.Stdio) int {
	if f.list && f.check {
		return io.Mistake("wrap", "--list and --check exclude each other")
	}
	if f.list {
		return listConfigured(&f.choice, f.json, operands, io)
	}
	if f.json {
		return io.Mistake("wrap", "--json needs --list")
	}
	program, err := clientconfig.Installed(f.program)
	if err != nil {
		return io.CannotWithHint("wrap", err,
			"install both programs permanently, or select an installed one: mcpscope wrap --program PATH")
	}
	r := rewriting{choice: f.choice, io: io, verb: "wrap", shared: f.shared, check: f.check}
	r.runner = &wrapping.Runner{Program: program, Chosen: f.program != ""}
	if f.idleFreeze != "" {
		after, err := cli.ParseLimit(f.idleFreeze)
		if err != nil {
			return io.Mistake("wrap", "--idle-freeze: "+err.Error())
		}
		if after > 0 && after < protocol.IdleFreezeLeast {
			io.Note("an idle-freeze below " + protocol.IdleFreezeLeast.String() +
				" can freeze a server during a call, and delay the answer by a minute")
		}
		r.runner.Flags = []wrapping.Flag{{Name: "idle-freeze", Value: f.idleFreeze}}
	}
	status := r.run(operands)
	if status == cli.ExitOK && !f.check && !f.dryRun {
		f.advise(io)
		f.noteSwap(io)
	}
	return status
}

// noteSwap says where frozen servers keep their memory.
func (f *wrapFlags) noteSwap(io cli.Stdio) {
	freezes := f.idleFreeze != "" && f.idleFreeze != "infinity"
	if !freezes || diagnose.Swap() != "" {
		return
	}
	io.Note("this host has no swap, so a frozen server keeps its memory")
	if remedy := diagnose.ZramCommand(); remedy != "" {
		io.Hint(remedy)
	}
}

// advise prints the memory of servers that run without mcpscope until their clients start them again.
func (f *wrapFlags) advise(io cli.Stdio) {
	memory := leftover.Bare()
	if memory == 0 {
		return
	}
	fmt.Fprintf(io.Out, "Servers still run without mcpscope (%s), until their clients restart.\n",
		show.HumanBytes(memory))
	if f.idleFreeze == "" && diagnose.Swap() != "" {
		fmt.Fprint(io.Out, "To freeze idle servers, which frees memory: mcpscope wrap --idle-freeze 10m\n")
	}
}
