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

// stateBroken is a wrapped server whose mcpscope does not exist.
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

// listConfigured prints the servers of configurations.
func listConfigured(f *choice, asJSON bool, operands []string, io cli.Stdio) int {
	all, err := clientconfig.Find(operands)
	if err != nil {
		return io.Cannot("find configurations", err)
	}
	status, views := cli.ExitOK, []configuredView{}
	lines := [][]string{{"CLIENT", "SERVER", "STATE", "COMMAND", "ARGS", "FILE"}}
	for _, c := range all {
		for _, s := range c.Servers {
			if !f.wants(s.Name) {
				continue
			}
			if why := clientconfig.WhyBroken(s); why != "" {
				s.State, s.Reason, status = stateBroken, why, cli.ExitFailure
			}
			own := s.Own()
			v := configuredView{
				Client: c.Client, File: c.Path, Name: s.Name, State: s.State, Reason: s.Reason,
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
	case len(all) == 0:
		io.None(noConfiguration)
	case len(views) == 0:
		io.None("no servers in " + cli.Counted(len(all), "file"))
	default:
		show.WriteTable(io.Out, lines)
	}
	return max(status, complain(io, all))
}

// complain says which files could not be read.
func complain(io cli.Stdio, all []*clientconfig.File) int {
	status := cli.ExitOK
	for _, c := range all {
		if c.Err != nil {
			status = io.Cannot("read "+c.Where(), c.Err)
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
