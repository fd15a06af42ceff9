// SPDX-License-Identifier: Apache-2.0

package show

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

// MeasureAll leaves out what has ended meanwhile.
func MeasureAll(servers []*fleet.Listed) []Server {
	views := []Server{}
	for _, s := range servers {
		if v, err := Measure(s); err == nil {
			views = append(views, v)
		}
	}
	return views
}

// WriteServers prints a table of servers, if there are any; with their users if these are of interest.
func WriteServers(out io.Writer, views []Server, users bool) {
	if len(views) == 0 {
		return
	}
	rows := make([]Row, len(views))
	for i, v := range views {
		rows[i].Server = v
	}
	WriteTable(out, servers(rows, users, false))
	writeLines(out, savings(views))
}

// savings is a line for each client with idle servers.
func savings(views []Server) (lines []string) {
	clients := map[Process][]Server{}
	for _, v := range views {
		clients[v.Client] = append(clients[v.Client], v)
	}
	for client, own := range clients {
		names, idle, saved := map[string]bool{}, 0, uint64(0)
		for _, v := range own {
			names[v.Name] = true
			if v.IdleSince != nil && v.Memory != nil {
				idle++
				saved += v.Before - min(*v.Memory, v.Before)
			}
		}
		if idle > 0 {
			line := fmt.Sprintf("%s: %s of %s, %d idle", cli.OneLine(client.Text()),
				cli.Counted(len(own), "server"), cli.Counted(len(names), "name"), idle)
			if saved > 0 { // or the kernel does not count it
				line += ": " + HumanBytes(saved) + " saved"
			}
			lines = append(lines, line)
		}
	}
	slices.Sort(lines)
	return lines
}

// Watched is a table of servers with their shares of a CPU, for that many cells.
func Watched(rows []Row, width int, users bool) []string {
	return layout(servers(rows, users, true), width)
}

// servers returns the heads, and a line for each server. The least important columns come last: a narrow
// terminal clips them.
func servers(rows []Row, users, shares bool) [][]string {
	lines := [][]string{
		{
			"ID", "NAME", "STATE", "AGE", "PROCS", "CPU%", "CPU", "MEMORY", "CLIENT", "PROJECT",
			"BACKEND", "UID",
		},
	}
	for _, r := range rows {
		lines = append(lines, []string{
			r.ID, r.Name, string(r.State), HumanSeconds(r.Age), strconv.Itoa(r.Processes),
			r.ShareText(), HumanSeconds(r.CPU), MemoryText(r.Server), r.Client.Text(),
			cmp.Or(r.Project, "-"), string(r.Backend), strconv.Itoa(r.UID),
		})
	}
	for i, line := range lines {
		if !users {
			line = line[:len(line)-1]
		}
		if !shares {
			line = slices.Delete(line, 5, 6)
		}
		lines[i] = line
	}
	return lines
}
