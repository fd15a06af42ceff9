// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"cmp"
	"io"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/wrapping"
)

func statusCommand(io cli.Stdio) *cobra.Command {
	var asJSON bool
	c := command(spec{
		use: "status [CLIENT|FILE…] [flags]", short: "list the servers of clients' configurations", operands: clientsAndFiles,
		examples: `  mcpscope status
  mcpscope status claude-code --json
`,
		long: `Lists the servers in the configurations of MCP clients that are found here: whether
they are wrapped, and why not. Looks in the home directory, in the directory that one
works in and in those above it, up to the top of its repository, and in the projects
that clients were used in as far as their own files name them. mcpscope-status(1)
lists the clients.

A server is broken if it is wrapped, and the mcpscope in its command is gone. The exit
status is 1 if one is, or if a file can't be read.`,
	}, func(operands []string) int { return statusRun(operands, asJSON, io) })
	c.Flags().BoolVar(&asJSON, "json", false, "one object")
	return c
}

func statusRun(operands []string, asJSON bool, io cli.Stdio) int {
	all, err := everywhere()
	if len(operands) > 0 {
		all, err = configurations(operands)
	}
	if err != nil {
		return io.CannotWithHint("find configurations", err, clientHint("status", err))
	}
	if asJSON {
		err = printJSON(io.Out, statusView(all), "  ")
	} else {
		writeStatus(io.Out, all, widthOf(io.Out))
	}
	if err != nil {
		return io.Cannot("print", err)
	}
	status := complain(io, all)
	for _, c := range all {
		if slices.ContainsFunc(c.broken, func(why string) bool { return why != "" }) {
			return cli.ExitFailure
		}
	}
	return status
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

// writeStatus is laid out as the tables about servers are.
func writeStatus(out io.Writer, all []*configured, width int) {
	columns := []column{
		{head: "CLIENT", least: 6}, {head: "SERVER", least: 10, most: 32}, {head: "STATE", least: 10}, {head: "COMMAND", least: 8, clip: fitEnd}, {head: "ARGS"},
		{head: "FILE", least: 16, clip: fitEnd},
	}
	var lines [][]string
	for _, c := range all {
		for i, s := range c.servers {
			s = c.shown(i)
			lines = append(lines, []string{cmp.Or(c.Client, "-"), s.Name, stateText(s), withoutArguments(s.Own()), arguments(s), c.where()})
		}
	}
	switch {
	case len(all) == 0:
		sayNone(out, noConfiguration())
		return
	case len(lines) == 0:
		sayNone(out, "no servers in "+counted(len(all), "file"))
		return
	}
	writeLines(out, columns, lines, width, "ARGS", "COMMAND", "CLIENT", "FILE", "STATE")
}

// stateBroken is what status calls a wrapped server whose mcpscope is gone.
const stateBroken wrapping.State = "broken"

// shown is a server as status has it.
func (c *configured) shown(i int) wrapping.Server {
	s := c.servers[i]
	if why := c.broken[i]; why != "" {
		s.State, s.Reason = stateBroken, why
	}
	return s
}

func arguments(s wrapping.Server) string { return strconv.Itoa(max(0, len(s.Own())-1)) }

func stateText(s wrapping.Server) string {
	text := string(s.State)
	if s.Reason != "" {
		text += ": " + cli.OneLine(s.Reason)
	}
	if s.Disabled {
		text += " (disabled)"
	}
	return text
}

// statusVersion is that of the fields below.
const statusVersion = 1

type fileView struct {
	Client  string       `json:"client,omitempty"`
	Path    string       `json:"path"`
	Target  string       `json:"target,omitempty"`
	Error   string       `json:"error,omitempty"`
	Left    string       `json:"left_alone,omitempty"`
	Servers []serverView `json:"servers"`
}

type serverView struct {
	Name      string         `json:"name"`
	State     wrapping.State `json:"state"`
	Reason    string         `json:"reason,omitempty"`
	Command   string         `json:"command,omitempty"`
	Arguments int            `json:"arguments"`
	Disabled  bool           `json:"disabled,omitempty"`
}

func statusView(all []*configured) any {
	files := []fileView{}
	for _, c := range all {
		v := fileView{Client: c.Client, Path: c.Path, Left: c.obstacle, Servers: []serverView{}}
		if c.file != nil && c.file.Target != c.Path {
			v.Target = c.file.Target
		}
		if c.err != nil {
			v.Error = c.err.Error()
		}
		for i := range c.servers {
			s := c.shown(i)
			one := serverView{Name: s.Name, State: s.State, Reason: s.Reason, Arguments: max(0, len(s.Own())-1), Disabled: s.Disabled}
			if len(s.Own()) > 0 {
				one.Command = withoutArguments(s.Own())
			}
			v.Servers = append(v.Servers, one)
		}
		files = append(files, v)
	}
	return struct {
		Version int        `json:"version"`
		Files   []fileView `json:"files"`
	}{statusVersion, files}
}
