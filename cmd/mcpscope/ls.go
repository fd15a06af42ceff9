//go:build linux

package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"text/template"

	"github.com/mcpscope/mcpscope/scope"
)

const lsUsage = `Usage: mcpscope ls [--all-users] [--client PID|NAME] [--orphans] [--duplicates] [--gateways] [--json | --format TEMPLATE | -q]

Lists the servers that run, the oldest first.

  --all-users        those of every user (root alone)
  --client PID|NAME  only those that this client has started
  --orphans          only those whose launcher and supervisor are gone
  --duplicates       only those of which a client has several of one name
  --gateways         each gateway that runs below mcpscope gateway, its servers, and what it
                     started that was left, with the reason
  --json             one object, as in docs/operators.md
  --format TEMPLATE  a Go template for each server, like '{{.ID}} {{.Name}} {{.Memory}}';
                     docs/operators.md has the fields
  -q                 only the ids, a line each
`

// filter says which servers are meant.
type filter struct {
	allUsers, orphans, duplicates bool
	client                        string
}

func (f *filter) set(fs *flag.FlagSet) {
	fs.BoolVar(&f.allUsers, "all-users", false, "")
	fs.StringVar(&f.client, "client", "", "")
}

type lsFlags struct {
	filter
	json, quiet, gateways bool
	format                *template.Template
}

func (f *lsFlags) flags() *flag.FlagSet {
	fs := newFlags("ls")
	f.filter.set(fs)
	fs.BoolVar(&f.orphans, "orphans", false, "")
	fs.BoolVar(&f.duplicates, "duplicates", false, "")
	fs.BoolVar(&f.gateways, "gateways", false, "")
	fs.BoolVar(&f.json, "json", false, "")
	fs.BoolVar(&f.quiet, "q", false, "")
	fs.Func("format", "", func(s string) (err error) {
		f.format, err = template.New("--format").Parse(s)
		return err
	})
	return fs
}

func lsCommand(args []string, io stdio) int {
	var f lsFlags
	done, status := parseFlags(f.flags(), args, lsUsage, io)
	if done {
		return status
	}
	if f.gateways {
		return f.listGateways(io)
	}
	servers, err := f.list()
	defer closeAll(servers)
	if err != nil && len(servers) == 0 {
		return cannot(io, "list servers", err)
	}
	views := lookAtAll(servers)
	out := bufio.NewWriter(io.out) // a thousand servers are not a thousand writes
	defer out.Flush()
	if err := f.write(out, views, widthOf(io.out)); err != nil {
		return cannot(io, "list servers", err)
	}
	if err != nil {
		return cannot(io, "list all servers", err)
	}
	return exitOK
}

func (f *lsFlags) write(out io.Writer, views []view, width int) error {
	switch {
	case f.quiet:
		for _, v := range views {
			fmt.Fprintln(out, v.ID)
		}
	case f.json:
		return writeJSON(out, views)
	case f.format != nil:
		for _, v := range views {
			var line strings.Builder
			if err := f.format.Execute(&line, v); err != nil {
				return err
			}
			fmt.Fprintln(out, oneLine(line.String()))
		}
	default:
		writeTable(out, views, f.allUsers, width)
	}
	return nil
}

// list finds what the filter lets through.
func (f *filter) list() ([]*scope.Listed, error) {
	uid := os.Getuid()
	if f.allUsers {
		uid = scope.Everyone
	}
	all, err := scope.List(uid)
	count := map[string]int{}
	for _, s := range all {
		count[s.Key()]++
	}
	return keep(all, func(s *scope.Listed) bool {
		client := f.client == "" || f.client == strconv.Itoa(s.Client.PID) || f.client == s.Client.Name
		return client && (!f.orphans || s.State == scope.Orphaned) && (!f.duplicates || count[s.Key()] > 1)
	}), err
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

func writeJSON(out io.Writer, views []view) error {
	return printJSON(out, struct {
		Version int    `json:"version"`
		Servers []view `json:"servers"`
	}{viewVersion, views}, "  ")
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
		{head: "NAME", text: func(r reading) string { return fit(r.Name, 32) }, least: 10},
		{head: "STATE", text: func(r reading) string { return string(r.State) }},
		{head: "AGE", text: func(r reading) string { return humanSeconds(r.Age) }},
		{head: "PROCS", text: func(r reading) string { return strconv.Itoa(r.Processes) }},
		{head: "CPU%", text: func(r reading) string { return r.share() }},
		{head: "CPU", text: func(r reading) string { return humanSeconds(r.CPU) }},
		{head: "MEMORY", text: func(r reading) string { return memoryText(r.view) }},
		{head: "CLIENT", text: func(r reading) string { return clientText(r.Client) }, least: 12},
		{head: "BACKEND", text: func(r reading) string { return string(r.Backend) }},
		{head: "UID", text: func(r reading) string { return strconv.Itoa(r.UID) }},
	}
}

// clientText clips the name, not the pid.
func clientText(c processView) string { return fmt.Sprintf("%s[%d]", fit(c.Name, 16), c.PID) }
