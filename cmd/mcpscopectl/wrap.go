// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/clientconfig"
	"github.com/mcpscope/mcpscope/internal/clientconfig/wrapping"
	"github.com/mcpscope/mcpscope/internal/flags"
	"github.com/mcpscope/mcpscope/internal/host"
	"github.com/mcpscope/mcpscope/internal/leaks"
	"github.com/mcpscope/mcpscope/internal/programs"
	"github.com/mcpscope/mcpscope/internal/server/policy"
	"github.com/mcpscope/mcpscope/internal/settings"
)

type wrapFlags struct {
	choice
	program    string
	idleFreeze string
	check      bool
	list       bool
	json       bool
}

func wrapCommand(stdio cli.Stdio) *cobra.Command {
	var f wrapFlags
	c := command(spec{
		use: "wrap [CLIENT|FILE…] [flags]", short: "run the configured servers of clients under mcpscope",
		operands: clientsAndFiles,
		examples: `  mcpscope wrap --list
  mcpscope wrap --dry-run
  mcpscope wrap claude-code
  mcpscope wrap claude-code --server github
  mcpscope wrap --idle-freeze 10m
`,
		long: `Put 'mcpscope run --name NAME --' in front of the server commands in the
configurations of MCP clients: of the clients and files that you name, or of all
that are found. CLIENT is a name such as claude-code, codex or cursor. The rest
of a file stays as it is, and its old content is kept in
$XDG_STATE_HOME/mcpscope/backups (default ~/.local/state/mcpscope/backups).
Shows the changes and asks before it writes. Restart running clients to use the
change. mcpscope unwrap undoes it.

A server that is wrapped already gets the flags of this call, and keeps those
that you wrote by hand. --idle-freeze 0 is written as well, and overrides
mcpscope.toml. To remove flags, unwrap the server and wrap it again.

It looks in your home directory, in the working directory, and in the parents of
that up to the top of the repository. A project's file that git tracks is left
alone, because other people may get it: name the file to change it. Your own
file, such as ~/.cursor/mcp.json, is changed even if git tracks it.

A server is bare, wrapped, not editable (with the reason) or broken: wrapped
with an mcpscope that is gone, or with flags that it refuses. wrap repairs
broken servers. The diff of --dry-run has … in place of comments and all values
but commands, so it contains no keys. In YAML, a server with an anchor or a
command of several lines isn't edited: wrap prints the lines to write.

The exit status is 1 if you named a client or file and none of its servers can
be edited, or if a server stays broken. Unreadable files are an error only if
you named or wrapped them. With --list, it is 1 if a server is broken; with
--check, also if wrap would change a file.`,
	}, func(operands []string) int { return f.run(operands, stdio) })
	c.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return mistakeInFlag(stdio, err) })
	addChange(c.Flags(), &f.choice)
	c.Flags().StringVar(&f.program, "program", "",
		"`PATH` of the mcpscope that clients start (default: the mcpscope that you ran)")
	c.Flags().StringVar(&f.idleFreeze, "idle-freeze", "",
		"freeze each server after `D` without use: 10m; 0 is never (see mcpscope help run)")
	c.Flags().BoolVar(&f.check, "check", false, "change nothing; exit with 1 if wrap would change a file")
	c.Flags().BoolVar(&f.list, "list", false, "list clients, servers and their states; change nothing")
	c.Flags().BoolVar(&f.json, "json", false, "with --list: print one JSON object")
	return c
}

// printProtection says in one line what mcpscope can do for servers on this host.
func printProtection(stdio cli.Stdio) {
	h := host.Look()
	best, _ := h.Best()
	more := ""
	if !best.HasGroup() || len(best.Missing()) > 0 {
		more = ". See mcpscope doctor"
	}
	fmt.Fprintf(stdio.Out, "Protection on this host: %s%s.\n", best.Summary(), more)
}

// mistakeInFlag says where a flag of run belongs that wrap does not have.
func mistakeInFlag(stdio cli.Stdio, err error) error {
	unknown, isUnknown := errors.AsType[*flags.UnknownError](err)
	if !isUnknown {
		return err
	}
	name := strings.TrimLeft(unknown.As, "-")
	rows := settings.Rows(settings.Run)
	isOfRun := func(r *settings.Row) bool { return r.Name == name && r.Where&settings.File != 0 }
	i := slices.IndexFunc(rows, isOfRun)
	if i < 0 {
		return err
	}
	value := `"VALUE"`
	if rows[i].List {
		value = `["VALUE"]`
	}
	fmt.Fprintf(stdio.Err, "mcpscope: wrap: unknown flag %q, which is one of run\n", unknown.As)
	const hint = `put it into ~/.config/mcpscope/mcpscope.toml: ` +
		`a line [server."NAME"], and below it %s = %s`
	stdio.Hint(fmt.Sprintf(hint, name, value))
	return status(cli.ExitUsage)
}

func (f *wrapFlags) run(operands []string, stdio cli.Stdio) int {
	switch {
	case f.list && f.check:
		return stdio.Mistake("wrap", "--list and --check exclude each other")
	case f.list && f.dryRun:
		return stdio.Mistake("wrap", "--list changes nothing, so it has no --dry-run")
	case f.list && f.yes:
		return stdio.Mistake("wrap", "--list changes nothing, so it has no --yes")
	case f.list && f.program != "":
		return stdio.Mistake("wrap", "--list changes nothing, so it has no --program")
	case f.list && f.idleFreeze != "":
		return stdio.Mistake("wrap", "--list changes nothing, so it has no --idle-freeze")
	case f.list:
		return listConfigured(&f.choice, f.json, operands, stdio)
	case f.json:
		return stdio.Mistake("wrap", "--json needs --list")
	}
	program, err := clientconfig.Installed(f.program)
	if err != nil {
		return cannotStart(stdio, err)
	}
	flags, err := f.flagsOfRun(stdio)
	if err != nil {
		return stdio.Mistake("wrap", err.Error())
	}
	r := rewriting{
		choice: f.choice, stdio: stdio, verb: "wrap", check: f.check,
		runner: &wrapping.Runner{Program: program, Chosen: f.program != "", Flags: flags},
	}
	status := r.run(operands)
	hasWrapped := status == cli.ExitOK && !f.check && !f.dryRun
	if r.wrote {
		printProtection(stdio)
	}
	if hasWrapped {
		swap := host.Swap()
		fmt.Fprint(stdio.Out, f.bareText(leaks.Bare(), swap))
		f.noteSwap(stdio, swap)
	}
	return status
}

// cannotStart prints why clients could not start a program.
func cannotStart(stdio cli.Stdio, err error) int {
	step := "install both programs permanently, or select an installed one: mcpscope wrap --program PATH"
	if cache, ok := errors.AsType[*programs.CacheError](err); ok {
		step = cache.Step("wrap")
	}
	return stdio.CannotWithHint("wrap", err, step)
}

// flagsOfRun are the flags that every wrapped server gets.
func (f *wrapFlags) flagsOfRun(stdio cli.Stdio) ([]wrapping.Flag, error) {
	var ofRun []wrapping.Flag
	if f.idleFreeze != "" {
		after, err := cli.ParseLimit(f.idleFreeze)
		if err != nil {
			return nil, fmt.Errorf("--idle-freeze: %w", err)
		}
		if after > 0 && after < policy.IdleFreezeLeast {
			stdio.Note("an idle-freeze below " + policy.IdleFreezeLeast.String() +
				" can freeze a server during a call, and delay the answer by a minute")
		}
		ofRun = append(ofRun, wrapping.Flag{Name: "idle-freeze", Value: f.idleFreeze})
	}
	return ofRun, nil
}

// bareText is about the memory of servers that run without mcpscope until their clients start them again.
func (f *wrapFlags) bareText(memory uint64, swap string) string {
	if memory == 0 {
		return ""
	}
	const text = "Servers still run without mcpscope (%s), until their clients restart.\n"
	bare := fmt.Sprintf(text, cli.HumanBytes(memory))
	if f.idleFreeze == "" && swap != "" {
		bare += "To freeze idle servers, which frees memory: mcpscope wrap --idle-freeze 10m\n"
	}
	return bare
}

// noteSwap prints a note if servers will be frozen on a host without swap: they keep their memory.
func (f *wrapFlags) noteSwap(stdio cli.Stdio, swap string) {
	after, err := cli.ParseLimit(f.idleFreeze)
	freezes := err == nil && after > 0
	if !freezes || swap != "" {
		return
	}
	stdio.Note("this host has no swap, so a frozen server keeps its memory")
	stdio.Hint(host.AddSwap)
}
