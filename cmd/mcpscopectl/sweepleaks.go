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
	for _, err := range found.Unread {
		stdio.NoteError("leaks of some servers are not found: cannot ", err)
	}
	if err != nil {
		return stdio.Cannot("look for leaks", err)
	}
	defer found.Close()
	if f.json {
		return f.printLeaksJSON(stdio, found.Found)
	}
	return f.listAndStop(stdio, found)
}

// leaveLeaks mentions leaks where no person can be asked. The sweep of orphans is the purpose of such a
// script, so a failed search for leaks is no failure of it.
func (f *sweepFlags) leaveLeaks(stdio cli.Stdio) {
	found, err := leaks.Find(f.servers.Users(), f.leastAge())
	if err != nil {
		return
	}
	defer found.Close()
	if len(found.Found) == 0 {
		f.sayNone(stdio, found.Searched)
		return
	}
	f.noteLeftAlone(stdio, len(found.Found))
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
		stdio.Note("daemons of leaks are not found: their parent is init, as that of any other daemon")
	}
	if f.dryRun && f.noOrphans {
		noteOthers(&f.servers, stdio, "sweep", "--dry-run")
	}
}

func (f *sweepFlags) noteLeftAlone(stdio cli.Stdio, count int) {
	left := cli.Counted(count, "leak") + " left alone, because there is no terminal to ask"
	stdio.Note(left + ": " + f.confirmed())
}

// confirmed is the command that stops the same leaks without a question.
func (f *sweepFlags) confirmed() string { return f.servers.CommandLine("sweep", "--yes") }

func (f *sweepFlags) listAndStop(stdio cli.Stdio, found leaks.List) int {
	if len(found.Found) == 0 {
		f.sayNone(stdio, found.Searched)
		return cli.ExitOK
	}
	writeLeaks(stdio, found.Found)
	stdio.Note("daemons of these servers are neither in PROCS nor stopped: " +
		"their parent is init, as that of any other daemon")
	if f.dryRun {
		return cli.ExitOK
	}
	return f.stopListed(stdio, found.Found)
}

// stopListed asks before it stops leaks, unless there is --yes.
func (f *sweepFlags) stopListed(stdio cli.Stdio, found []*leaks.Leak) int {
	question := fmt.Sprintf("Stop %s?", cli.Counted(len(found), "leak"))
	if !f.yes && !stdio.Confirmed(question) {
		return stdio.Unconfirmed("stop leaks", f.confirmed())
	}
	status := cli.ExitOK
	for _, l := range found {
		err := stopLeak(l)
		status = max(status, printStopped(stdio, l, err))
	}
	return status
}

// printLeaksJSON stops no leak without --yes.
func (f *sweepFlags) printLeaksJSON(stdio cli.Stdio, found []*leaks.Leak) int {
	status := cli.ExitOK
	for _, l := range found {
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
	lines := [][]string{{"PID", "NAME", "AGE", "PROCS", "MEMORY", "PARENT", "COMMAND", "FILE"}}
	for _, l := range found {
		v := l.Swept()
		lines = append(lines, []string{
			strconv.Itoa(v.PID), v.Name, render.HumanSeconds(v.Age), strconv.Itoa(v.Processes),
			render.MemoryText(v.Server), v.Parent.Text(), v.Program, v.File,
		})
	}
	render.WriteTable(stdio.Out, lines)
}
