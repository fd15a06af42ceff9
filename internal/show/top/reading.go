// SPDX-License-Identifier: Apache-2.0

package top

import (
	"fmt"
	"strings"
	"time"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/selection"
	"github.com/mcpscope/mcpscope/internal/server/fleet"
	"github.com/mcpscope/mcpscope/internal/show"
)

// reading is a server as it was measured.
type reading struct {
	show.Row
	server *fleet.Listed // nil while something is done to it
	taken  time.Time
	tree   []fleet.Member // if its details are shown
}

// key identifies a server in all readings. An id alone can be forged by a process of its user.
func key(r show.Row) string { return r.Group + " " + r.ID }

func memoryBytes(r show.Row) uint64 {
	if r.Memory == nil {
		return 0
	}
	return *r.Memory
}

// contains reports whether one of the texts of a server contains that of the filter, in any case.
func (r *reading) contains(filter string) bool {
	texts := []string{r.ID, r.Name, r.Client.Name, r.Project, string(r.State), string(r.Backend)}
	return strings.Contains(strings.ToLower(strings.Join(texts, "\n")), strings.ToLower(filter))
}

// details are the lines about one server.
func (r *reading) details(width int) []string {
	lines := []string{
		fmt.Sprintf("%s (%s)  %s", r.Name, r.ID, r.State),
		fmt.Sprintf("%s, by %s, %s old, %d processes",
			r.Backend, r.Client.Text(), show.HumanSeconds(r.Age), r.Processes),
		fmt.Sprintf("CPU%% %s, CPU %s, memory %s", r.ShareText(), show.HumanSeconds(r.CPU), r.MemoryLine()),
	}
	for _, m := range r.tree {
		indent := strings.Repeat("  ", m.Depth)
		lines = append(lines, fmt.Sprintf("%s%d %s %s", indent, m.PID, show.HumanBytes(m.Memory), m.Command))
	}
	for i := range lines {
		lines[i] = show.Fit(cli.OneLine(lines[i]), width)
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
		measured, gone := show.Measure(s)
		if gone != nil {
			s.Close()
			continue
		}
		r := reading{Row: show.Row{Server: measured, Share: -1}, server: s, taken: time.Now()}
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

func closeReadings(readings []reading) {
	for _, r := range readings {
		if r.server != nil {
			r.server.Close()
		}
	}
}
