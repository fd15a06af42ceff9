// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/parallel"
	"github.com/mcpscope/mcpscope/internal/server/fleet"
)

// Row is a server in a table.
type Row struct {
	Server Server
	// Share is the part of one CPU that it has used since the last refresh; negative if that is not known.
	Share float64
	// IsSession: it is a session instead, above its servers.
	IsSession bool
	isBelow   bool // such a line
}

// nameText shows which servers are below the line of their session.
func (r *Row) nameText() string {
	if r.isBelow {
		return "  " + r.Server.Name
	}
	return r.Server.Name
}

func (r *Row) ageText() string {
	hasUnknownStart := r.Server.Ended != nil && r.Server.Started == nil // an orphan
	if hasUnknownStart {
		return "-"
	}
	return HumanSeconds(r.Server.Age)
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
	all := make([]Server, len(servers))
	hasEnded := make([]bool, len(servers))
	parallel.Each(len(servers), func(i int) {
		v, err := Measure(servers[i])
		all[i] = v
		hasEnded[i] = err != nil
	})
	measured := []Server{}
	for i, v := range all {
		if !hasEnded[i] {
			measured = append(measured, v)
		}
	}
	return measured
}

// WriteServers prints a table of servers and their sessions, if there are any; with their users if these are
// of interest. A line for each client with idle servers follows.
func WriteServers(out io.Writer, servers, sessions []Server, users bool) {
	if len(servers) == 0 && len(sessions) == 0 {
		return
	}
	rows := make([]Row, len(servers))
	var running []Server
	for i, v := range servers {
		rows[i].Server = v
		if v.State != Ended {
			running = append(running, v)
		}
	}
	kind := tableKind{users: users, ended: len(running) < len(servers)}
	writeLines(out, serverLines(Grouped(rows, sessions), kind, cli.WidthOf(out)))
	writeLines(out, savings(running))
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
	of := cli.Counted(len(servers), "server")
	line := fmt.Sprintf("%s: %d of %s idle", cli.OneLine(client.Text()), idle, of)
	if len(names) < len(servers) {
		line += fmt.Sprintf(", copies of %d", len(names))
	}
	if saved > 0 { // 0 where the kernel does not count it
		line += ": " + cli.HumanBytes(saved) + " saved"
	}
	return line
}

// Watched is a table of servers with their shares of a CPU, for that many cells.
func Watched(rows []Row, width int, users bool) []string {
	return serverLines(rows, tableKind{users: users, shares: true}, width)
}

// tableKind selects the columns that not every table of servers has.
type tableKind struct{ users, shares, ended bool }

// column is one column of a table of servers.
type column struct {
	head string
	text func(*Row) string
	// dropped is the place among the columns that a narrow terminal does without; the first is 1. A column
	// with 0 is never dropped.
	dropped int
}

func columns(kind tableKind) []column {
	list := []column{
		{"ID", func(r *Row) string { return r.Server.ID }, 0},
		{"NAME", (*Row).nameText, 0},
		{"STATE", func(r *Row) string { return string(r.Server.State) }, 10},
		{"AGE", (*Row).ageText, 7},
	}
	if kind.ended {
		list = append(list,
			column{"ENDED", (*Row).endedText, 9},
			column{"CAUSE", func(r *Row) string { return cmp.Or(string(r.Server.Cause), "-") }, 8})
	}
	list = append(list, column{"PROCS", func(r *Row) string { return strconv.Itoa(r.Server.Processes) }, 6})
	if kind.shares {
		list = append(list, column{"CPU%", (*Row).ShareText, 9})
	}
	list = append(list, []column{
		{"CPU", func(r *Row) string { return HumanSeconds(r.Server.CPU) }, 5},
		{"MEMORY", func(r *Row) string { return MemoryText(r.Server) }, 0},
		{"CLIENT", func(r *Row) string { return r.Server.Client.Text() }, 3},
		{"PROJECT", func(r *Row) string { return cmp.Or(r.Server.Project, "-") }, 2},
		{"BACKEND", func(r *Row) string { return string(r.Server.Backend) }, 1},
	}...)
	if kind.users {
		list = append(list, column{"UID", func(r *Row) string { return strconv.Itoa(r.Server.UID) }, 4})
	}
	return list
}

// endedText is how long ago a server has ended.
func (r *Row) endedText() string {
	if r.Server.Ended == nil {
		return "-"
	}
	return HumanSeconds(max(time.Since(*r.Server.Ended), 0).Seconds()) + " ago"
}

// serverLines are the heads and a line for each server. A narrow terminal gets the most important columns,
// and then a shorter name, so that the memory stays. Without a width, nothing is left out.
func serverLines(rows []Row, kind tableKind, width int) []string {
	shown := columns(kind)
	cells := table(rows, shown)
	if width == 0 {
		return layout(cells, 0)
	}
	makeHarmless(cells, width)
	for {
		over := totalWidth(cells) - width
		first := firstDropped(shown)
		if over <= 0 || first < 0 {
			break
		}
		shown = slices.Delete(shown, first, first+1)
		for i := range cells {
			cells[i] = slices.Delete(cells[i], first, first+1)
		}
	}
	const name, nameLeast = 1, 8 // the column, and its cells
	over := totalWidth(cells) - width
	if over > 0 {
		room := max(columnWidths(cells)[name]-over, nameLeast)
		for i := range cells {
			cells[i][name] = Fit(cells[i][name], room)
		}
	}
	return layout(cells, width)
}

// firstDropped is the index of the least important column, and -1 if all have to stay.
func firstDropped(columns []column) int {
	first := -1
	for i, c := range columns {
		if c.dropped != 0 && (first < 0 || c.dropped < columns[first].dropped) {
			first = i
		}
	}
	return first
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
