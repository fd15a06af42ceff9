// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/wrapping"
)

type statusFlags struct{ json bool }

func statusCommand(io cli.Stdio) *cobra.Command {
	var f statusFlags
	c := command(spec{
		use: "status [CLIENT|FILE…] [flags]", short: "list the servers of clients' configurations", operands: clientsAndFiles,
		examples: `  mcpscope status
  mcpscope status claude-code --json
`,
		long: `Lists the servers in the configurations of MCP clients that are found here: whether
they are wrapped, and why not. Looks in the home directory, in the directory that one
works in and in those above it, up to the top of its repository. mcpscope-status(1)
lists the clients.`,
	}, func(operands []string) int { return f.run(operands, io) })
	c.Flags().BoolVar(&f.json, "json", false, "one object")
	return c
}

func (f *statusFlags) run(operands []string, io cli.Stdio) int {
	all, err := configurations(operands)
	if err != nil {
		return io.Cannot("find configurations", err)
	}
	if f.json {
		err = cli.PrintJSON(io.Out, statusView(all), "  ")
	} else {
		writeStatus(io.Out, all)
	}
	if err != nil {
		return io.Cannot("print", err)
	}
	return complain(io, all)
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

func writeStatus(out io.Writer, all []*configured) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	head := "CLIENT\tSERVER\tSTATE\tCOMMAND\tARGS\tFILE\n"
	for _, c := range all {
		for _, s := range c.servers {
			fmt.Fprintf(w, "%s%s\t%s\t%s\t%s\t%s\t%s\n", head, dashed(c.Client), cli.OneLine(fit(s.Name, 32)), stateText(s), withoutArguments(s.Own()), arguments(s), c.where())
			head = ""
		}
	}
	_ = w.Flush() // whoever reads has gone
}

func dashed(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func arguments(s wrapping.Server) string { return strconv.Itoa(max(0, len(s.Own())-1)) }

func stateText(s wrapping.Server) string {
	text := string(s.State)
	if s.Reason != "" {
		text += ": " + cli.OneLine(fit(s.Reason, 160))
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
		for _, s := range c.servers {
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
