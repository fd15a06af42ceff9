// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"cmp"
	"strconv"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/clientconfig/wrapping"
)

// stateBroken is a wrapped server whose mcpscope is gone.
const stateBroken wrapping.State = "broken"

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

func printList(f *changeFlags, asJSON bool, operands []string, io cli.Stdio) int {
	all, err := configurations(operands)
	if err != nil {
		return io.Cannot("find configurations", err)
	}
	status, views, lines := cli.ExitOK, []configuredView{}, [][]string{}
	for _, c := range all {
		for _, s := range c.servers {
			if !f.wants(s.Name) {
				continue
			}
			if why := brokenText(s); why != "" {
				s.State, s.Reason, status = stateBroken, why, cli.ExitFailure
			}
			own := s.Own()
			v := configuredView{
				Client: c.Client, File: c.Path, Name: s.Name, State: s.State, Reason: s.Reason,
				Command: withoutArguments(own), Arguments: max(0, len(own)-1),
			}
			lines = append(lines, []string{cmp.Or(v.Client, "-"), v.Name, stateText(s),
				cmp.Or(v.Command, "-"), strconv.Itoa(v.Arguments), c.where()})
			views = append(views, v)
		}
	}
	switch {
	case asJSON:
		err = printJSON(io.Out, struct {
			Version int              `json:"version"`
			Servers []configuredView `json:"servers"`
		}{1, views}, "  ")
	case len(all) == 0:
		sayNone(io.Out, noConfiguration)
	case len(lines) == 0:
		sayNone(io.Out, "no servers in "+counted(len(all), "file"))
	default:
		columns := []column{
			{head: "CLIENT", least: 6}, {head: "SERVER", least: 10, most: 32}, {head: "STATE", least: 10},
			{head: "COMMAND", least: 8, clip: fitEnd}, {head: "ARGS"},
			{head: "FILE", least: 16, clip: fitEnd},
		}
		writeLines(io.Out, columns, lines, widthOf(io.Out), "ARGS", "COMMAND", "CLIENT", "FILE", "STATE")
	}
	if err != nil {
		return io.Cannot("print", err)
	}
	return max(status, complain(io, all))
}

// complain says which files could not be read.
func complain(io cli.Stdio, all []*configured) int {
	status := cli.ExitOK
	for _, c := range all {
		if c.err != nil {
			status = io.Cannot("read "+c.where(), c.err)
		}
	}
	return status
}

func stateText(s wrapping.Server) string {
	if s.Reason == "" {
		return string(s.State)
	}
	return string(s.State) + ": " + cli.OneLine(s.Reason)
}
