// SPDX-License-Identifier: Apache-2.0

//go:build linux

package protocol

import (
	"fmt"
	"strings"
	"time"

	"github.com/mcpscope/mcpscope/cgroup"
)

// Pressure is for how long members had to wait for something since the start: some of them, and
// all (PSI, Linux 4.20).
type Pressure struct {
	Avg10 float64  `json:"avg10"` // percent of the last 10 s in which some waited
	Avg60 float64  `json:"avg60"`
	Some  float64  `json:"some_seconds"`
	Full  *float64 `json:"full_seconds,omitempty"`
}

// PressureOf reads the group's files, of which any may be missing.
func PressureOf(g *cgroup.Group) map[string]Pressure {
	var all map[string]Pressure
	for _, what := range []string{"cpu", "memory", "io"} {
		b, err := g.Read(what + ".pressure")
		if err != nil {
			continue
		}
		p, ok := parsePressure(string(b))
		if !ok {
			continue
		}
		if all == nil {
			all = map[string]Pressure{}
		}
		all[what] = p
	}
	return all
}

func parsePressure(text string) (p Pressure, ok bool) {
	for line := range strings.Lines(text) {
		var kind string
		var ten, sixty, threeHundred float64
		var total uint64
		n, _ := fmt.Sscanf(line, "%s avg10=%f avg60=%f avg300=%f total=%d", &kind, &ten, &sixty, &threeHundred, &total)
		seconds := (time.Duration(total) * time.Microsecond).Seconds()
		switch {
		case n < 5:
		case kind == "some":
			p.Avg10, p.Avg60, p.Some, ok = ten, sixty, seconds, true
		case kind == "full":
			p.Full = &seconds
		}
	}
	return p, ok
}
