// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/clientconfig"
	"github.com/mcpscope/mcpscope/internal/containment"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/leaks"
	"github.com/mcpscope/mcpscope/internal/render"
	"github.com/mcpscope/mcpscope/internal/selection"
	"github.com/mcpscope/mcpscope/internal/server/fleet"
	"github.com/mcpscope/mcpscope/internal/settings"
)

type lsFlags struct {
	servers selection.Selection
	order   render.Order
	all     bool
	json    bool
	format  *render.Format // nil without --format
}

func lsCommand(stdio cli.Stdio) *cobra.Command {
	f := lsFlags{order: render.OldestFirst()}
	c := command(spec{
		use: "ls [flags]", short: "list the running servers", also: "list ps status",
		examples: `  mcpscope ls
  mcpscope ls --client claude --json
  mcpscope ls --sort -memory
  mcpscope ls --all --project shop
  mcpscope ls --format '{{.Name}} {{size .Memory}}'
`,
		long: `List the running servers, the oldest first. STATE is running, terminating,
frozen, idle or orphan. An idle server is frozen until its client writes (run
--idle-freeze); its MEMORY before that is in parentheses. An orphan has lost its
launcher and guard, and is stopped when its user next starts a server, or by
mcpscope sweep. CLIENT is the process that started the server; for servers of
mcpscope gateway, it is the gateway. PROJECT is the base name of the directory
in which the server was started.

A session (mcpscope gateway --session) has a line above its servers, with
the sums of its agent and servers.

With --all, also list the servers that have ended since the boot, as the journal
has them. Their STATE is ended, AGE is how long they ran, ENDED how long ago
they ended, and CAUSE why. CAUSE is swept for an orphan, and not-started for a
server that could not be started; the AGE of these is unknown. Sorted by age,
they are in the order of their start.

A template of --format has the fields of --json:

  ID Name UID Backend State Cause Group Unit Client.PID Client.Name ClientUnit
  Project Conversation InSession Launcher Guard Started Ended Age Policy Kept
  Processes CPU Memory Peak IdleSince Wakes Before MemoryFrom Limits OOMKills
  PIDsRefused

{{size .Memory}} and {{duration .Age}} print a figure as in the table, and
{{json .}} prints JSON.`,
	}, func(operands []string) int { return f.run(stdio) })
	fs := c.Flags()
	fs.BoolVarP(&f.all, "all", "a", false, "also list servers that have ended since the boot")
	fs.Func("sort", "sort by `COLUMN`: "+strings.Join(render.SortColumns(), ", ")+
		"; with - before it, the largest first (default -age)", readBy(&f.order, render.ParseOrder))
	sortable := func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return render.SortColumns(), cobra.ShellCompDirectiveNoFileComp
	}
	_ = c.RegisterFlagCompletionFunc("sort", sortable) // it has that flag
	addFilters(c, &f.servers)
	fs.Func("format", "print each server by the Go template `TEXT`, or json", f.setFormat)
	fs.BoolVar(&f.json, "json", false, "print one JSON object")
	return c
}

func (f *lsFlags) setFormat(text string) (err error) {
	if text == "json" {
		f.json = true
		return nil
	}
	f.format, err = render.ParseFormat(text)
	return err
}

// note prints which servers of gateways are missing in the list, for they are not contained, and which agents
// have a daemon that would end with them.
func (f *lsFlags) note(t *proc.Table, servers []*fleet.Listed, stdio cli.Stdio) {
	isForProgram := f.json || f.format != nil // it may take stderr for a failure
	if !isForProgram {
		noteOthers(&f.servers, stdio, "ls")
	}
	problems, daemons := containment.Lines(t, f.servers.Users())
	for _, line := range slices.Concat(problems, daemons) {
		stdio.Note(line)
	}
	for _, group := range containment.UncontainedGroups(t, f.servers.Users()) {
		stdio.Note("the gateway in " + group + " has no server that is contained: see mcpscope doctor")
	}
	for _, line := range containment.DaemonLines(servers) {
		stdio.Note(line)
	}
	for _, line := range render.HeldLines(servers) {
		stdio.Note(line)
	}
}

// notePerson prints what takes a while to find. Scripts do not wait for it: they have mcpscope wrap --check
// and mcpscope sweep.
func (f *lsFlags) notePerson(t *proc.Table, search *clientconfig.Search, isEmpty bool, stdio cli.Stdio) {
	isMissed := isEmpty && !f.servers.IsNarrow() // the servers that a person expects in the list may be bare
	for _, line := range slices.Concat(mistakesInSettings(), uncovered(t, search, isMissed)) {
		stdio.Note(line)
	}
	left, _ := leaks.CountBy(f.servers.Users(), search) // sweep prints the error
	if left > 0 {
		servers := cli.Counted(left, "server")
		line := f.servers.OnlyUsers().CommandLine("sweep", "--dry-run")
		stdio.Note(servers + " left behind by agents without mcpscope: " + line)
	}
}

// mistakesInSettings returns a line about settings that servers do not get. Their launchers have it only for
// the report and with -v, because clients read stderr as failure.
func mistakesInSettings() []string {
	problems := settings.ReadFiles().Problems
	if len(problems) == 0 {
		return nil
	}
	line := "servers start without some settings: " + cli.ErrorLine(problems[0])
	if len(problems) > 1 {
		line += fmt.Sprintf("; %d more: mcpscope doctor", len(problems)-1)
	}
	return []string{line}
}

// uncovered returns lines about configured servers that run without mcpscope, where others are wrapped or in
// any case.
func uncovered(t *proc.Table, search *clientconfig.Search, inAnyCase bool) []string {
	found, _ := search.Everywhere() // no file, without a directory to look in
	coverage := found.Coverage()
	someAreWrapped := coverage.Wrapped+len(coverage.Broken) > 0
	if !someAreWrapped && !inAnyCase {
		return nil
	}
	return coverage.Lines(containment.ClientsInside(t))
}

func (f *lsFlags) run(stdio cli.Stdio) int {
	if f.json && f.format != nil {
		return stdio.Mistake("ls", "--json and --format exclude each other")
	}
	isForPerson := cli.OnTerminal(stdio.Out)
	search := clientconfig.NewSearch()
	if isForPerson { // large files are read while servers are listed
		go func() { _, _ = search.Everywhere() }()
	}
	found, err := f.servers.Find()
	if err != nil {
		return stdio.Cannot("list servers", err)
	}
	defer found.Close()
	views := render.MeasureAll(found.Servers)
	sessions := render.MeasureSessions(found.Sessions, views)
	if f.all {
		views = append(views, f.ended(found.Servers, stdio)...)
	}
	f.order.Sort(views)
	status := f.print(views, sessions, found.Unlisted, stdio)
	t := proc.Take()
	f.note(t, found.Servers, stdio)
	if isForPerson {
		f.notePerson(t, search, len(views) == 0, stdio)
	}
	return status
}

// print prints servers and sessions. unlisted is why others are missing.
func (f *lsFlags) print(
	servers, sessions []render.Server, unlisted error, stdio cli.Stdio,
) int {
	status := cli.ExitOK
	switch {
	case f.format != nil:
		if err := f.format.Write(stdio.Out, servers); err != nil {
			status = stdio.Cannot("print servers by --format", err)
		}
	case f.json:
		status = printJSON(stdio, "list servers", render.ListWith(servers, sessions))
	case len(servers) == 0 && len(sessions) == 0 && unlisted == nil:
		stdio.None(f.servers.None())
	default:
		render.WriteServers(stdio.Out, servers, sessions, f.servers.AllUsers)
	}
	if unlisted != nil {
		return stdio.Cannot("list all servers", unlisted)
	}
	return status
}
