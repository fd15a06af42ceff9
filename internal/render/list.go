// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/server/fleet"
)

// Row is a server in a table.
type Row struct {
	Server
	// Share is the part of one CPU that it has used since the last refresh; negative if that is not known.
	Share float64
}

// ShareText is the share in percent.
func (r *Row) ShareText() string {
	if r.Share < 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f", 100*r.Share)
}

// MeasureAll leaves out servers that have ended since they were listed.
func MeasureAll(servers []*fleet.Listed) []Server {
	measured := []Server{}
	for _, s := range servers {
		if v, err := Measure(s); err == nil {
			measured = append(measured, v)
		}
	}
	return measured
}

// WriteServers prints a table of servers, if there are any; with their users if these are of interest. A
// line for each client with idle servers follows.
func WriteServers(out io.Writer, servers []Server, users bool) {
	if len(servers) == 0 {
		return
	}
	rows := make([]Row, len(servers))
	for i, v := range servers {
		rows[i].Server = v
	}
	WriteTable(out, table(rows, columns(users, false)))
	writeLines(out, savings(servers))
}

// savings is a line for each client with idle servers.
func savings(servers []Server) (lines []string) {
	clients := map[Process][]Server{}
	for _, v := range servers {
		clients[v.Client] = append(clients[v.Client], v)
	}
	for client, itsServers := range clients {
		line := savedFor(client, itsServers)
		if line != "" {
			lines = append(lines, line)
		}
	}
	slices.Sort(lines)
	return lines
}

// savedFor returns "" for a client without idle servers.
func savedFor(client Process, servers []Server) string {
	names := map[string]bool{}
	idle := 0
	var saved uint64
	for _, v := range servers {
		names[v.Name] = true
		if v.IdleSince != nil && v.Memory != nil {
			idle++
			saved += v.Before - min(*v.Memory, v.Before)
		}
	}
	if idle == 0 {
		return ""
	}
	line := fmt.Sprintf("%s: %s of %s, %d idle", cli.OneLine(client.Text()),
		cli.Counted(len(servers), "server"), cli.Counted(len(names), "name"), idle)
	if saved > 0 { // 0 where the kernel does not count it
		line += ": " + HumanBytes(saved) + " saved"
	}
	return line
}

// Watched is a table of servers with their shares of a CPU, for that many cells.
func Watched(rows []Row, width int, users bool) []string {
	return layout(table(rows, columns(users, true)), width)
}

// column is one column of a table of servers.
type column struct {
	head string
	text func(*Row) string
}

// columns returns the least important columns last: a narrow terminal clips them.
func columns(users, shares bool) []column {
	list := []column{
		{"ID", func(r *Row) string { return r.ID }},
		{"NAME", func(r *Row) string { return r.Name }},
		{"STATE", func(r *Row) string { return string(r.State) }},
		{"AGE", func(r *Row) string { return HumanSeconds(r.Age) }},
		{"PROCS", func(r *Row) string { return strconv.Itoa(r.Processes) }},
	}
	if shares {
		list = append(list, column{"CPU%", (*Row).ShareText})
	}
	list = append(list, []column{
		{"CPU", func(r *Row) string { return HumanSeconds(r.CPU) }},
		{"MEMORY", func(r *Row) string { return MemoryText(r.Server) }},
		{"CLIENT", func(r *Row) string { return r.Client.Text() }},
		{"PROJECT", func(r *Row) string { return cmp.Or(r.Project, "-") }},
		{"BACKEND", func(r *Row) string { return string(r.Backend) }},
	}...)
	if users {
		list = append(list, column{"UID", func(r *Row) string { return strconv.Itoa(r.UID) }})
	}
	return list
}

// table returns the heads, and a line for each server.
func table(rows []Row, columns []column) [][]string {
	var heads []string
	for _, c := range columns {
		heads = append(heads, c.head)
	}
	lines := [][]string{heads}
	for i := range rows {
		var line []string
		for _, c := range columns {
			line = append(line, c.text(&rows[i]))
		}
		lines = append(lines, line)
	}
	return lines
}
