// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/leaks"
	"github.com/mcpscope/mcpscope/internal/render"
	"github.com/mcpscope/mcpscope/internal/server/policy"
)

// sweepLeaks lists leaks, and stops them after a question.
func (f *sweepFlags) sweepLeaks(stdio cli.Stdio) int {
	found, err := leaks.Find(f.servers.Users(), f.leastAge())
	noteUnread(stdio, found)
	if err != nil {
		return stdio.Cannot("look for leaks", err)
	}
	defer found.Close()
	if f.json {
		return f.printLeaksJSON(stdio, found)
	}
	return f.listAndStop(stdio, found)
}

func noteUnread(stdio cli.Stdio, found leaks.List) {
	for _, unread := range found.Unread {
		stdio.Note("leaks of some servers are not found: cannot " + unread)
	}
}

// configurationsCommand prints what a user has configured, for a search by root.
func configurationsCommand(args []string, stdio cli.Stdio) int {
	if err := leaks.PrintAs(args, stdio.Out); err != nil {
		return stdio.Cannot("print configurations", err)
	}
	return cli.ExitOK
}

// leaveLeaks mentions leaks where no person can be asked. The sweep of orphans is the purpose of such a
// script, so a failed search for leaks is no failure of it.
func (f *sweepFlags) leaveLeaks(stdio cli.Stdio) {
	found, err := leaks.Find(f.servers.Users(), f.leastAge())
	if err != nil {
		stdio.NoteError("cannot look for leaks: ", err)
		return
	}
	defer found.Close()
	f.noteLeaks(stdio, found)
}

func (f *sweepFlags) noteLeaks(stdio cli.Stdio, found leaks.List) {
	noteUnread(stdio, found)
	if len(found.Unsure) > 0 {
		stdio.Note(unsureCount(found) + ": " + f.line("--dry-run"))
	}
	switch {
	case len(found.Found) > 0:
		f.noteLeftAlone(stdio, len(found.Found))
	case len(found.Unread) == 0:
		f.sayNone(stdio, found.Searched)
	}
}

// unsureCount is a sentence about what no command stops.
func unsureCount(found leaks.List) string {
	count := len(found.Unsure)
	if count == 1 {
		return "1 process could be a leak, and is left alone"
	}
	return cli.Counted(count, "process") + " could be leaks, and are left alone"
}

// sayNone reports that there is no leak and, without a terminal, that there is no orphan either.
func (f *sweepFlags) sayNone(stdio cli.Stdio, searched []string) {
	if f.quiet {
		return
	}
	isTerminal := cli.OnTerminal(stdio.Out)
	switch {
	case isTerminal:
		stdio.None(noLeaks(searched))
	case f.noOrphans:
		stdio.Note("no orphans, and " + noLeaks(searched))
	default: // its orphans are listed
		stdio.Note(noLeaks(searched))
	}
	if isTerminal || f.dryRun {
		stdio.Note("background daemons that servers have left are not found: look for them with ps")
	}
	if f.dryRun && f.noOrphans {
		noteOthers(&f.servers, stdio, "sweep", "--dry-run")
	}
}

func (f *sweepFlags) noteLeftAlone(stdio cli.Stdio, count int) {
	left := cli.Counted(count, "leak") + " left alone, because there is no terminal to ask"
	stdio.Note(left + ": " + f.line("--yes"))
}

// line is the command for the same leaks with another flag.
func (f *sweepFlags) line(flag string) string { return f.servers.CommandLine("sweep", flag) }

func (f *sweepFlags) listAndStop(stdio cli.Stdio, found leaks.List) int {
	writeUnsure(stdio, found)
	if len(found.Found) == 0 {
		f.sayNone(stdio, found.Searched)
		return cli.ExitOK
	}
	writeLeaks(stdio, found.Found)
	stdio.Note("background daemons that these servers started are neither counted nor stopped")
	if f.dryRun {
		return cli.ExitOK
	}
	return f.stopListed(stdio, found.Found)
}

// stopListed asks before it stops leaks, unless there is --yes.
func (f *sweepFlags) stopListed(stdio cli.Stdio, found []*leaks.Leak) int {
	question := fmt.Sprintf("Stop %s?", cli.Counted(len(found), "leak"))
	if !f.yes && !stdio.Confirmed(question) {
		return stdio.Unconfirmed("stop leaks", f.line("--yes"))
	}
	status := cli.ExitOK
	for _, l := range found {
		err := stopLeak(l)
		status = max(status, printStopped(stdio, l, err))
	}
	return status
}

// printLeaksJSON stops no leak without --yes.
func (f *sweepFlags) printLeaksJSON(stdio cli.Stdio, found leaks.List) int {
	status := cli.ExitOK
	for _, l := range found.Unsure {
		status = max(status, printSweptJSON(stdio, l.Swept()))
	}
	for _, l := range found.Found {
		swept := l.Swept()
		if f.yes && !f.dryRun {
			err := stopLeak(l)
			swept.Stopped = new(err == nil)
			if err != nil {
				status = cannotStopLeak(stdio, l, err)
			}
		}
		status = max(status, printSweptJSON(stdio, swept))
	}
	return status
}

func stopLeak(l *leaks.Leak) error { return l.Stop(policy.Default().TermGrace) }

func printStopped(stdio cli.Stdio, l *leaks.Leak, err error) int {
	if err != nil {
		return cannotStopLeak(stdio, l, err)
	}
	fmt.Fprintf(stdio.Out, "stopped %s\n", nameAndPID(l))
	return cli.ExitOK
}

func cannotStopLeak(stdio cli.Stdio, l *leaks.Leak, err error) int {
	return stdio.Cannot("stop "+nameAndPID(l), err)
}

func nameAndPID(l *leaks.Leak) string {
	return fmt.Sprintf("%s (process %d)", cli.OneLine(l.Name), l.PID)
}

// meaning explains leaks to people.
const meaning = " (servers that an agent without mcpscope has left behind)"

// noLeaks names the directories that were searched. A configuration elsewhere could name a process.
func noLeaks(searched []string) string {
	if len(searched) == 0 {
		return "no leaks" + meaning
	}
	const most = 5
	names := strings.Join(searched[:min(len(searched), most)], ", ")
	if more := len(searched) - most; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	return "no leaks" + meaning + " of the servers configured in " + names
}

func writeLeaks(stdio cli.Stdio, found []*leaks.Leak) {
	if cli.OnTerminal(stdio.Out) { // scripts read the table alone
		fmt.Fprintln(stdio.Out, cli.Counted(len(found), "leak")+meaning+":")
	}
	lines := [][]string{{"PID", "NAME", "AGE", "PROCS", "MEMORY", "DIRECTORY", "COMMAND", "FILE"}}
	for _, l := range found {
		v := l.Swept()
		lines = append(lines, []string{
			strconv.Itoa(v.PID), v.Server.Name, render.HumanSeconds(v.Server.Age),
			strconv.Itoa(v.Server.Processes), render.MemoryText(v.Server), v.Directory, v.Command, v.File,
		})
	}
	render.WriteWholeTable(stdio.Out, lines)
}

// writeUnsure lists what a person has to judge. It is no part of the list of leaks, which scripts read.
func writeUnsure(stdio cli.Stdio, found leaks.List) {
	if len(found.Unsure) == 0 {
		return
	}
	stdio.Note(unsureCount(found) + ":")
	lines := [][]string{{"PID", "NAME", "AGE", "DIRECTORY", "COMMAND", "WHY"}}
	for _, l := range found.Unsure {
		v := l.Swept()
		why := v.Doubt
		if v.File != "" {
			why += " (" + v.File + ")"
		}
		lines = append(lines, []string{
			strconv.Itoa(v.PID), v.Server.Name, render.HumanSeconds(v.Server.Age),
			v.Directory, v.Command, why,
		})
	}
	render.WriteWholeTable(stdio.Err, lines)
}
