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
	render.Row
	server *fleet.Listed // nil while something is done to it
	taken  time.Time
	tree   []fleet.Member // if its details are shown
}

// key identifies a server in all readings. An id alone can be forged by a process of its user.
func key(r render.Row) string { return r.Group + " " + r.ID }

// contains reports whether one of the texts of a server contains that of the filter, in any case.
func (r *reading) contains(filter string) bool {
	texts := []string{r.ID, r.Name, r.Client.Name, r.Project, string(r.State), string(r.Backend)}
	return strings.Contains(strings.ToLower(strings.Join(texts, "\n")), strings.ToLower(filter))
}

// details are the lines about one server.
func (r *reading) details(width int) []string {
	lines := []string{
		fmt.Sprintf("%s (%s)  %s", r.Name, r.ID, r.State),
		fmt.Sprintf("%s, by %s, %s old, %s",
			r.Backend, r.Client.Text(), render.HumanSeconds(r.Age), cli.Counted(r.Processes, "process")),
		fmt.Sprintf("CPU%% %s, CPU %s, memory %s", r.ShareText(), render.HumanSeconds(r.CPU), r.MemoryLine()),
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

// read measures the servers, and compares them with the readings before. Of one it also lists the processes.
func read(f *selection.Filter, before []reading, details string) ([]reading, error) {
	previous := map[string]*reading{}
	for i := range before {
		previous[key(before[i].Row)] = &before[i]
	}
	servers, err := f.List()
	var readings []reading
	for _, s := range servers {
		measured, gone := render.Measure(s)
		if gone != nil {
			s.Close()
			continue
		}
		r := reading{Row: render.Row{Server: measured, Share: -1}, server: s, taken: time.Now()}
		if old, ok := previous[key(r.Row)]; ok {
			r.Share = max(r.CPU-old.CPU, 0) / r.taken.Sub(old.taken).Seconds()
		}
		if key(r.Row) == details {
			r.tree, _ = s.Tree() // none, if it has just ended
		}
		readings = append(readings, r)
	}
	return readings, err
}

// readSessions measures the sessions; those without a server only if no server is left out.
func readSessions(f *selection.Filter, readings []reading) []render.Session {
	var servers []render.Server
	for i := range readings {
		servers = append(servers, readings[i].Server)
	}
	listed, _ := f.ListSessions() // as far as they can be listed: their servers are there all the same
	defer selection.CloseSessions(listed)
	return render.MeasureSessions(listed, servers, !f.IsNarrow())
}

func closeReadings(readings []reading) {
	for _, r := range readings {
		if r.server != nil {
			r.server.Close()
		}
	}
}
