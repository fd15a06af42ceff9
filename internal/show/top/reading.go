// SPDX-License-Identifier: Apache-2.0

//go:build linux

package top

import (
	"time"

	"github.com/mcpscope/mcpscope/internal/selection"
	"github.com/mcpscope/mcpscope/internal/server/fleet"
	"github.com/mcpscope/mcpscope/internal/show"
)

// reading is a server as top has read it.
type reading struct {
	show.Row
	server *fleet.Listed // nil while something is done to it
	at     time.Time
	// tree are its processes, if they were asked for.
	tree []fleet.Member
}

// who is the same for a server in all readings. An id alone is what a process of its user may
// have written.
func (r *reading) who() string { return r.Group + " " + r.ID }

// read looks at all servers that the filter lets through, and compares with the reading before. Of
// one it also lists the processes.
func read(f *selection.Filter, before []reading, details string) ([]reading, error) {
	was := map[string]*reading{}
	for i := range before {
		was[before[i].who()] = &before[i]
	}
	servers, err := f.List()
	var all []reading
	for _, s := range servers {
		v, gone := show.Measure(s)
		if gone != nil {
			s.Close()
			continue
		}
		r := reading{Row: show.Row{Server: v, Cpu: -1}, server: s, at: time.Now()}
		if old := was[r.who()]; old != nil {
			r.Cpu = max(r.CPU-old.CPU, 0) / r.at.Sub(old.at).Seconds()
		}
		if r.who() == details {
			r.tree, _ = s.Tree() // none, if it has just ended
		}
		all = append(all, r)
	}
	return all, err
}

func closeReadings(all []reading) {
	for _, r := range all {
		if r.server != nil {
			r.server.Close()
		}
	}
}
