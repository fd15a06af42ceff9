// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"github.com/mcpscope/mcpscope/internal/server/fleet"
	"time"
)

// reading is a server as top has read it.
type reading struct {
	view
	server *fleet.Listed // nil while something is done to it
	at     time.Time
	// cpu is the part of one processor that it has used since the reading before; negative in the
	// first one.
	cpu float64
	// tree are its processes, if they were asked for.
	tree []fleet.Member
}

// who is the same for a server in all readings. An id alone is what a process of its user may
// have written.
func (r *reading) who() string { return r.Group + " " + r.ID }

func (r *reading) share() string {
	if r.cpu < 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f", 100*r.cpu)
}

// read looks at all servers that the filter lets through, and compares with the reading before. Of
// one it also lists the processes.
func (f *filter) read(before []reading, details string) ([]reading, error) {
	was := map[string]*reading{}
	for i := range before {
		was[before[i].who()] = &before[i]
	}
	servers, err := f.list()
	var all []reading
	for _, s := range servers {
		v, gone := look(s)
		if gone != nil {
			s.Close()
			continue
		}
		r := reading{view: v, server: s, at: time.Now(), cpu: -1}
		if old := was[r.who()]; old != nil {
			r.cpu = max(r.CPU-old.CPU, 0) / r.at.Sub(old.at).Seconds()
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
