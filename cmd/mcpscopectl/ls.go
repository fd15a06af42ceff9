// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/server/fleet"
	"github.com/mcpscope/mcpscope/internal/server/hierarchy"
)

// filter says which servers are meant.
type filter struct {
	allUsers bool
	client   string
}

// addFilter adds the flags of a filter to a command.
func addFilter(c *cobra.Command, f *filter) {
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
		return hierarchy.Everyone
	}
	return os.Getuid()
}

type lsFlags struct {
	filter
	json, quiet bool
}

func lsCommand(io cli.Stdio) *cobra.Command {
	var f lsFlags
	c := command(spec{
		use: "ls [flags]", short: "list the servers that run",
		examples: `  mcpscope ls
  mcpscope ls --client claude --json
`,
		long: `Lists the servers that run, the oldest first. STATE is running, ending, frozen, or
orphan: launcher and supervisor are gone, and the next start or mcpscope sweep stops
it. CLIENT is the process that started it; of a server below mcpscope gateway, the
gateway.`,
	}, func(operands []string) int { return f.run(io) })
	fs := c.Flags()
	addFilter(c, &f.filter)
	fs.BoolVar(&f.json, "json", false, "one object")
	fs.BoolVarP(&f.quiet, "quiet", "q", false, "only the ids, a line each")
	return c
}

func (f *lsFlags) run(io cli.Stdio) int {
	servers, err := f.list()
	defer closeAll(servers)
	if err != nil && len(servers) == 0 {
		return io.Cannot("list servers", err)
	}
	views := lookAtAll(servers)
	out := bufio.NewWriter(io.Out) // a thousand servers are not a thousand writes
	defer out.Flush()
	if len(views) == 0 && err == nil && !f.quiet && !f.json {
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
		}{jsonVersion, views}, "  ")
	default:
		writeTable(out, views, f.allUsers, width)
	}
	return nil
}

// list finds what the filter lets through.
func (f *filter) list() ([]*fleet.Listed, error) {
	all, err := fleet.List(whose(f.allUsers))
	return keep(all, func(s *fleet.Listed) bool {
		return f.client == "" || f.client == strconv.Itoa(s.Client.PID) || f.client == s.Client.Name
	}), err
}

// none says that there are no such servers.
func (f *filter) none() string {
	if f.client != "" {
		return "no servers of the client " + f.client
	}
	return "no servers"
}

// keep closes what it leaves out.
func keep(all []*fleet.Listed, wanted func(*fleet.Listed) bool) []*fleet.Listed {
	var kept []*fleet.Listed
	for _, s := range all {
		if wanted(s) {
			kept = append(kept, s)
		} else {
			s.Close()
		}
	}
	return kept
}

func closeAll(all []*fleet.Listed) {
	for _, s := range all {
		s.Close()
	}
}

// lookAtAll leaves out what has ended meanwhile.
func lookAtAll(servers []*fleet.Listed) []view {
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
	rows := make([]row, len(views))
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
		{head: "ID", text: func(r row) string { return r.ID }},
		{head: "NAME", text: func(r row) string { return r.Name }, least: 10, most: 32},
		{head: "STATE", text: func(r row) string { return string(r.State) }},
		{head: "AGE", text: func(r row) string { return humanSeconds(r.Age) }},
		{head: "PROCS", text: func(r row) string { return strconv.Itoa(r.Processes) }},
		{head: "CPU%", text: func(r row) string { return r.share() }},
		{head: "CPU", text: func(r row) string { return humanSeconds(r.CPU) }},
		{head: "MEMORY", text: func(r row) string { return memoryText(r.view) }},
		{head: "CLIENT", text: func(r row) string { return clientText(r.Client) }, least: 12, most: 24, clip: fitName},
		{head: "BACKEND", text: func(r row) string { return string(r.Backend) }},
		{head: "UID", text: func(r row) string { return strconv.Itoa(r.UID) }},
	}
}

func clientText(c processView) string { return fmt.Sprintf("%s[%d]", c.Name, c.PID) }
