// SPDX-License-Identifier: Apache-2.0

package top

import (
	"fmt"
	"strings"
	"time"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/render"
	"github.com/mcpscope/mcpscope/internal/selection"
	"github.com/mcpscope/mcpscope/internal/server/fleet"
)

// reading is a server as it was measured.
type reading struct {
	row    render.Row
	server *fleet.Listed // nil while something is done to it
	taken  time.Time
	tree   []fleet.Member // if its details are shown
}

// key identifies a server in all readings. An id alone can be forged by a process of its user.
func key(r render.Row) string { return r.Server.Group + " " + r.Server.ID }

// contains reports whether one of the texts of a server contains that of the filter, in any case.
func (r *reading) contains(filter string) bool {
	of := &r.row.Server
	texts := []string{of.ID, of.Name, of.Client.Name, of.Project, string(of.State), string(of.Backend)}
	return strings.Contains(strings.ToLower(strings.Join(texts, "\n")), strings.ToLower(filter))
}

// details are the lines about one server.
func (r *reading) details(width int) []string {
	of := &r.row.Server
	processes := cli.Counted(of.Processes, "process")
	used := render.HumanSeconds(of.CPU)
	lines := []string{
		fmt.Sprintf("%s (%s)  %s", of.Name, of.ID, of.State),
		fmt.Sprintf("%s, by %s, %s old, %s",
			of.Backend, of.Client.Text(), render.HumanSeconds(of.Age), processes),
		fmt.Sprintf("CPU%% %s, CPU %s, memory %s", r.row.ShareText(), used, of.MemoryLine()),
	}
	for _, m := range r.tree {
		indent := strings.Repeat("  ", m.Depth)
		memory := cli.HumanBytes(m.Memory)
		lines = append(lines, fmt.Sprintf("%s%d %s %s", indent, m.PID, memory, m.Command))
	}
	for i := range lines {
		lines[i] = render.Fit(cli.OneLine(lines[i]), width)
	}
	return lines
}

// read measures the servers and sessions, and compares the servers with the readings before. Of one it also
// lists the processes. With an error it returns those that could be listed.
func read(s *selection.Selection, before []reading, details string) (now measured, err error) {
	previous := map[string]*reading{}
	for i := range before {
		previous[key(before[i].row)] = &before[i]
	}
	found, err := s.Find()
	if err != nil {
		return now, err
	}
	var servers []render.Server
	for _, l := range found.Servers {
		server, gone := render.Measure(l)
		if gone != nil {
			l.Close()
			continue
		}
		servers = append(servers, server)
		r := reading{row: render.Row{Server: server, Share: -1}, server: l, taken: time.Now()}
		if old, ok := previous[key(r.row)]; ok {
			r.row.Share = max(r.row.Server.CPU-old.row.Server.CPU, 0) / r.taken.Sub(old.taken).Seconds()
		}
		if key(r.row) == details {
			r.tree, _ = l.Handle.Tree() // none, if it has just ended
		}
		now.readings = append(now.readings, r)
	}
	now.sessions = render.MeasureSessions(found.Sessions, servers)
	found.Servers = nil // the readings have them
	found.Close()
	return now, found.Unlisted
}

func closeReadings(readings []reading) {
	for _, r := range readings {
		if r.server != nil {
			r.server.Close()
		}
	}
}
