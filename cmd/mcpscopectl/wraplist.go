// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"cmp"
	"strconv"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/clientconfig"
	"github.com/mcpscope/mcpscope/internal/clientconfig/wrapping"
	"github.com/mcpscope/mcpscope/internal/show"
)

// configuredView is a server as wrap --list shows it. Its arguments and its environment may be secrets.
type configuredView struct {
	Client    string         `json:"client,omitempty"`
	File      string         `json:"file"`
	Name      string         `json:"name"`
	State     wrapping.State `json:"state"`
	Reason    string         `json:"reason,omitempty"`
	Command   string         `json:"command,omitempty"`
	Arguments int            `json:"arguments"`
}

// listConfigured prints the servers of configurations.
func listConfigured(f *choice, asJSON bool, operands []string, io cli.Stdio) int {
	if err := undoSudo(); err != nil {
		return io.Cannot("find configurations", err)
	}
	found, err := clientconfig.Find(operands)
	if err != nil {
		return io.Cannot("find configurations", err)
	}
	status, views := cli.ExitOK, []configuredView{}
	lines := [][]string{{"CLIENT", "SERVER", "STATE", "COMMAND", "ARGS", "FILE"}}
	for _, c := range found.Files {
		c.LeaveShared()
		for _, s := range c.Servers {
			if !f.wants(s.Name) {
				continue
			}
			if s.State == wrapping.Broken {
				status = cli.ExitFailure
			}
			own := s.Own()
			v := configuredView{
				Client: c.Client, File: c.Path, Name: s.Name, State: s.State, Reason: reasonText(s),
				Command: clientconfig.WithoutArguments(own), Arguments: max(0, len(own)-1),
			}
			lines = append(lines, []string{cmp.Or(v.Client, "-"), v.Name, stateText(s),
				cmp.Or(v.Command, "-"), strconv.Itoa(v.Arguments), c.Where()})
			views = append(views, v)
		}
	}
	switch {
	case asJSON:
		status = max(status, show.JSON(io, "list servers", views))
	case len(found.Files) == 0:
		io.None(noConfiguration)
	case len(views) == 0:
		io.None("no servers in " + cli.Counted(len(found.Files), "file"))
	default:
		show.WriteTable(io.Out, lines)
	}
	return max(status, complain(io, found))
}

// complain prints what could not be read.
func complain(io cli.Stdio, found clientconfig.Found) int {
	status := cli.ExitOK
	for _, err := range found.Unsearched() {
		io.Note("cannot " + cli.ErrorLine(err))
	}
	for _, c := range found.Files {
		if c.BackupErr != nil && wrapping.AnyWrapped(c.Servers) {
			io.Note("cannot " + cli.ErrorLine(c.BackupErr) + ": unwrap does not restore the file to the byte")
		}
		switch {
		case c.Err != nil && c.HasBackup():
			status = io.CannotWithHint("read "+c.Where()+", which was wrapped", c.Err, c.Repair())
		case c.Err != nil:
			status = io.Cannot("read "+c.Where(), c.Err)
		}
	}
	return status
}

func stateText(s wrapping.Server) string {
	if reason := reasonText(s); reason != "" {
		return string(s.State) + ": " + cli.OneLine(reason)
	}
	return string(s.State)
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
