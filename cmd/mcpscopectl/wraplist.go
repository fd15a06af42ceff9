// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/clientconfig"
	"github.com/mcpscope/mcpscope/internal/clientconfig/wrapping"
	"github.com/mcpscope/mcpscope/internal/render"
)

// configuredView is a server as wrap --list shows it. Its arguments and its environment may be secrets.
type configuredView struct {
	Client    string         `json:"client,omitempty"`
	File      string         `json:"file"`
	Target    string         `json:"target,omitempty"` // of a link
	Name      string         `json:"name"`
	State     wrapping.State `json:"state"`
	Program   string         `json:"program,omitempty"` // the mcpscope of a wrapped server
	Reason    string         `json:"reason,omitempty"`
	Command   string         `json:"command,omitempty"`
	Arguments int            `json:"arguments"`
	Flags     []string       `json:"flags,omitempty"` // of run, without the name that wrap gives

	where string // File with the target of a link
}

func viewOf(c *clientconfig.File, s wrapping.Server) configuredView {
	command := s.Own()
	var words []string
	for _, flag := range clientconfig.Flags(c, &s) {
		words = append(words, flag.Words...)
	}
	program := ""
	if s.IsWrapped() {
		program = s.Argv[0]
	}
	return configuredView{
		Client: c.Client, File: c.Path, Target: c.Target(), Name: s.Name, State: s.State, Program: program,
		Reason:  reasonText(s),
		Command: clientconfig.WithoutArguments(command), Arguments: max(0, len(command)-1),
		Flags: words, where: c.Where(),
	}
}

// flagsText returns the flags as a line.
func (v configuredView) flagsText() string { return strings.TrimSpace(commandLine(v.Flags)) }

// listConfigured prints the servers of configurations. A broken server is a failure.
func listConfigured(f *choice, asJSON bool, operands []string, stdio cli.Stdio) int {
	if status := undoSudo(os.Geteuid(), stdio, "find configurations"); status != cli.ExitOK {
		return status
	}
	found, err := clientconfig.Find(operands)
	if err != nil {
		return stdio.Cannot("find configurations", clientconfig.WithServerFlag(err, operands))
	}
	status := cli.ExitOK
	views := []configuredView{}
	clientconfig.LeaveShared(found.Files)
	for _, c := range found.Files {
		for _, s := range c.Servers {
			if !f.wants(s.Name) {
				continue
			}
			if s.State == wrapping.Broken {
				status = cli.ExitFailure
			}
			views = append(views, viewOf(c, s))
		}
	}
	if !asJSON {
		nameDifferentPrograms(views)
	}
	switch {
	case asJSON:
		status = max(status, printJSON(stdio, "list servers", render.ListOf(views)))
	case len(found.Files) == 0:
		stdio.None(noConfiguration)
	case len(views) == 0:
		stdio.None("no servers in " + cli.Counted(len(found.Files), "file"))
	case cli.WidthOf(stdio.Out) > 0:
		printByFile(stdio, views)
	default:
		printConfiguredTable(stdio, views)
	}
	return max(status, printUnread(stdio, found, len(operands) > 0, ""))
}

// nameDifferentPrograms gives wrapped servers their mcpscope as a reason if they do not have the same. A
// broken one has its own.
func nameDifferentPrograms(views []configuredView) {
	first := ""
	isSame := true
	for _, v := range views {
		if v.State != wrapping.Wrapped {
			continue
		}
		first = cmp.Or(first, v.Program)
		isSame = isSame && v.Program == first
	}
	for i := range views {
		v := &views[i]
		switch {
		case isSame || v.State != wrapping.Wrapped:
		case v.Reason == "":
			v.Reason = "by " + v.Program
		default:
			v.Reason += "; by " + v.Program
		}
	}
}

// printConfiguredTable prints a line for each server, with all that is known, for scripts.
func printConfiguredTable(stdio cli.Stdio, views []configuredView) {
	lines := [][]string{{"CLIENT", "SERVER", "STATE", "COMMAND", "ARGS", "FLAGS", "FILE"}}
	for _, v := range views {
		state := string(v.State)
		if v.Reason != "" {
			state += ": " + v.Reason
		}
		lines = append(lines, []string{
			cmp.Or(v.Client, "-"), v.Name, state, cmp.Or(v.Command, "-"), strconv.Itoa(v.Arguments),
			cmp.Or(v.flagsText(), "-"), v.where,
		})
	}
	render.WriteTable(stdio.Out, lines)
}

// printByFile prints the servers below their file, for a terminal: no file, reason or flags fit beside them,
// and the state has to be whole.
func printByFile(stdio cli.Stdio, views []configuredView) {
	for len(views) > 0 {
		first := views[0]
		end := slices.IndexFunc(views, func(v configuredView) bool { return v.File != first.File })
		if end < 0 {
			end = len(views)
		}
		fmt.Fprintf(stdio.Out, "%s (%s)\n", first.where, cmp.Or(first.Client, "a file"))
		lines := [][]string{{"  SERVER", "STATE", "ARGS", "COMMAND"}}
		var details []string
		for _, v := range views[:end] {
			lines = append(lines, []string{
				"  " + v.Name, string(v.State), strconv.Itoa(v.Arguments), cmp.Or(v.Command, "-"),
			})
			if v.Reason != "" {
				details = append(details, v.Name+": "+v.Reason)
			}
			if len(v.Flags) > 0 {
				details = append(details, v.Name+": "+v.flagsText())
			}
		}
		render.WriteTable(stdio.Out, lines)
		for _, detail := range details {
			fmt.Fprintf(stdio.Out, "    %s\n", cli.OneLine(detail))
		}
		views = views[end:]
	}
}

// printUnread prints what could not be read. That is a failure for files that a person has named, and for
// those that are known to be wrapped. Any other file may be of no interest: it gets a note, with the
// consequence that unwrap has for wrapped servers in it.
func printUnread(stdio cli.Stdio, found clientconfig.Found, areNamed bool, consequence string) int {
	status := cli.ExitOK
	for _, err := range found.Backups {
		stdio.NoteError("cannot ", err)
	}
	for _, err := range found.Directories {
		stdio.Note("cannot " + cli.ErrorLine(err) + consequence)
	}
	for _, c := range found.Files {
		if c.BackupErr != nil && wrapping.AnyWrapped(c.Servers) {
			reason := cli.ErrorLine(c.BackupErr)
			stdio.Note("cannot " + reason + ": unwrap does not restore the file to the byte")
		}
	}
	for _, u := range found.Unread() {
		where := u.File.Where()
		reason := cli.ErrorLine(u.File.Err)
		switch {
		case u.Trace != "":
			goal := "read " + where + ", which " + u.Trace
			status = stdio.CannotWithHint(goal, u.File.Err, u.File.Repair())
		case areNamed:
			status = stdio.Cannot("read "+where, u.File.Err)
		case u.IsUnknown:
			stdio.Note("cannot read " + where + ": " + reason + consequence)
		default:
			stdio.Note("cannot read " + where + ": " + reason)
		}
	}
	return status
}

func stateText(s wrapping.Server) string {
	reason := reasonText(s)
	if reason == "" {
		return string(s.State)
	}
	return string(s.State) + ": " + cli.OneLine(reason)
}

// reasonText returns why a server cannot be changed or started.
func reasonText(s wrapping.Server) string {
	switch {
	case s.Mistake != "":
		return "mcpscope run would refuse " + s.Mistake + ": edit the file"
	case s.State == wrapping.Broken && s.Reason == "":
		return s.Argv[0] + " is not there; mcpscope wrap repairs it"
	case s.State == wrapping.Broken:
		return s.Argv[0] + " is not there, and " + s.Reason
	case s.State == wrapping.Wrapped && s.ByHand():
		return "by hand, since " + s.Reason
	}
	return s.Reason
}
