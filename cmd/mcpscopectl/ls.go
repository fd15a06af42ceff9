// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"text/template"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/scope"
)

// filter says which servers are meant.
type filter struct {
	allUsers, orphans, duplicates bool
	client                        string
}

// set adds the flags to a command.
func (f *filter) set(c *cobra.Command) {
	allUsers(c.Flags(), &f.allUsers)
	c.Flags().StringVar(&f.client, "client", "", "only those that this client has started: `PID|NAME`")
	_ = c.RegisterFlagCompletionFunc("client", clientNames) // it has that flag
}

// allUsers is the same flag of many commands.
func allUsers(fs *pflag.FlagSet, to *bool) {
	fs.BoolVar(to, "all-users", false, "those of every user (root alone)")
}

// whose is the uid of those that are meant.
func whose(everyone bool) int {
	if everyone {
		return scope.Everyone
	}
	return os.Getuid()
}

type lsFlags struct {
	filter
	json, quiet, gateways bool
	format                *template.Template
}

func lsCommand(io cli.Stdio) *cobra.Command {
	var f lsFlags
	c := command(spec{
		use: "ls [flags]", short: "list the servers that run",
		examples: `  mcpscope ls
  mcpscope ls --client claude --json
  mcpscope ls --format '{{.ID}} {{.Name}} {{.Memory}}'
`,
		long: "Lists the servers that run, the oldest first.",
	}, func(operands []string) int { return f.run(io) })
	fs := c.Flags()
	f.filter.set(c)
	fs.BoolVar(&f.orphans, "orphans", false, "only those whose launcher and supervisor are gone")
	fs.BoolVar(&f.duplicates, "duplicates", false, "only those of which a client has several of one name")
	fs.BoolVar(&f.gateways, "gateways", false, "each gateway that runs below mcpscope gateway, its servers, and what it started that was left, with the reason")
	fs.BoolVar(&f.json, "json", false, "one object")
	fs.Func("format", "a Go `TEMPLATE` for each server, like '{{.ID}} {{.Name}} {{.Memory}}'", func(s string) (err error) {
		f.format, err = template.New("--format").Parse(s)
		return err
	})
	fs.BoolVarP(&f.quiet, "quiet", "q", false, "only the ids, a line each")
	return c
}

func (f *lsFlags) run(io cli.Stdio) int {
	if f.gateways {
		return f.listGateways(io)
	}
	servers, err := f.list()
	defer closeAll(servers)
	if err != nil && len(servers) == 0 {
		return io.Cannot("list servers", err)
	}
	views := lookAtAll(servers)
	out := bufio.NewWriter(io.Out) // a thousand servers are not a thousand writes
	defer out.Flush()
	if len(views) == 0 && err == nil && !f.quiet && !f.json && f.format == nil {
		sayNone(io.Out, f.none())
	}
	if err := f.write(out, views, widthOf(io.Out)); err != nil {
		return io.Cannot("list servers", err)
	}
	if err != nil {
		return io.Cannot("list all servers", err)
	}
	return cli.ExitOK
}

func (f *lsFlags) write(out io.Writer, views []view, width int) error {
	switch {
	case f.quiet:
		for _, v := range views {
			fmt.Fprintln(out, v.ID)
		}
	case f.json:
		return printJSON(out, struct {
			Version int    `json:"version"`
			Servers []view `json:"servers"`
		}{viewVersion, views}, "  ")
	case f.format != nil:
		for _, v := range views {
			var line strings.Builder
			if err := f.format.Execute(&line, v); err != nil {
				return err
			}
			fmt.Fprintln(out, cli.OneLine(line.String()))
		}
	default:
		writeTable(out, views, f.allUsers, width)
	}
	return nil
}

// list finds what the filter lets through.
func (f *filter) list() ([]*scope.Listed, error) {
	all, err := scope.List(whose(f.allUsers))
	count := map[string]int{}
	for _, s := range all {
		count[s.Key()]++
	}
	return keep(all, func(s *scope.Listed) bool {
		client := f.client == "" || f.client == strconv.Itoa(s.Client.PID) || f.client == s.Client.Name
		return client && (!f.orphans || s.State == scope.Orphaned) && (!f.duplicates || count[s.Key()] > 1)
	}), err
}

// none says that there are no such servers.
func (f *filter) none() string {
	text := "no servers"
	switch {
	case f.orphans:
		text = "no orphans"
	case f.duplicates:
		text = "no duplicates"
	}
	if f.client != "" {
		text += " of the client " + f.client
	}
	return text
}

// keep closes what it leaves out.
func keep(all []*scope.Listed, wanted func(*scope.Listed) bool) []*scope.Listed {
	var kept []*scope.Listed
	for _, s := range all {
		if wanted(s) {
			kept = append(kept, s)
		} else {
			s.Close()
		}
	}
	return kept
}

func closeAll(all []*scope.Listed) {
	for _, s := range all {
		s.Close()
	}
}

// lookAtAll leaves out what has ended meanwhile.
func lookAtAll(servers []*scope.Listed) []view {
	views := []view{}
	for _, s := range servers {
		if v, err := look(s); err == nil {
			views = append(views, v)
		}
	}
	return views
}

func writeTable(out io.Writer, views []view, users bool, width int) {
	if len(views) == 0 {
		return
	}
	rows := make([]reading, len(views))
	for i, v := range views {
		rows[i].view = v
	}
	columns := without(columns(), "CPU%")
	if !users {
		columns = without(columns, "UID")
	}
	for _, line := range table(columns, rows, width) {
		fmt.Fprintln(out, line)
	}
}

// columns are all that tables about servers have.
func columns() []column {
	return []column{
		{head: "ID", text: func(r reading) string { return r.ID }},
		{head: "NAME", text: func(r reading) string { return r.Name }, least: 10, most: 32},
		{head: "STATE", text: func(r reading) string { return string(r.State) }},
		{head: "AGE", text: func(r reading) string { return humanSeconds(r.Age) }},
		{head: "PROCS", text: func(r reading) string { return strconv.Itoa(r.Processes) }},
		{head: "CPU%", text: func(r reading) string { return r.share() }},
		{head: "CPU", text: func(r reading) string { return humanSeconds(r.CPU) }},
		{head: "MEMORY", text: func(r reading) string { return memoryText(r.view) }},
		{head: "CLIENT", text: func(r reading) string { return clientText(r.Client) }, least: 12, most: 24, clip: fitName},
		{head: "BACKEND", text: func(r reading) string { return string(r.Backend) }},
		{head: "UID", text: func(r reading) string { return strconv.Itoa(r.UID) }},
	}
}

func clientText(c processView) string { return fmt.Sprintf("%s[%d]", c.Name, c.PID) }
