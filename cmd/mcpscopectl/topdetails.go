// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/mcpscope/mcpscope/internal/cli"
)

// usageSample is what a server used at a time.
type usageSample struct {
	at     time.Time
	cpu    float64 // of one processor; negative if it is not known
	memory uint64  // 0 where it is not counted
}

// pastMost is how long samples are kept.
const pastMost = 10 * time.Minute

// remember adds the newest readings to the samples, and forgets old ones and servers that have
// ended.
func (v *topView) remember() {
	past := map[string][]usageSample{}
	for _, r := range v.all {
		all := append(v.past[r.who()], usageSample{r.at, r.cpu, orZero(r.Memory)})
		for len(all) > 0 && r.at.Sub(all[0].at) > pastMost {
			all = all[1:]
		}
		past[r.who()] = all
	}
	v.past = past
}

// detailLines are all that is shown of one server.
func (v *topView) detailLines(r *reading, width, height int) []string {
	lines := []string{
		fmt.Sprintf("%s (%s)  %s", r.Name, r.ID, r.State),
		fmt.Sprintf("%s, by %s, %s old, %d processes", r.Backend, clientText(r.Client), humanSeconds(r.Age), r.Processes),
	}
	for i := range lines {
		lines[i] = cli.OneLine(lines[i])
	}
	samples := v.past[r.who()]
	var cpu, memory []float64
	for _, s := range samples {
		cpu, memory = append(cpu, max(s.cpu, 0)), append(memory, float64(s.memory))
	}
	span := time.Duration(0)
	if len(samples) > 0 {
		span = samples[len(samples)-1].at.Sub(samples[0].at)
	}
	rows := min(max((height-len(r.tree)-6)/2, 1), 6)
	lines = append(lines, fmt.Sprintf("CPU%% %s, most %.1f in %s", r.share(), 100*largest(cpu), humanDuration(span)))
	lines = append(lines, graph(cpu, width, rows)...)
	if r.Memory != nil {
		lines = append(lines, fmt.Sprintf("memory %s, most %s in %s", memoryText(r.view), humanBytes(uint64(largest(memory))), humanDuration(span)))
		lines = append(lines, graph(memory, width, rows)...)
	} else {
		lines = append(lines, "memory is not known")
	}
	for _, m := range r.tree {
		lines = append(lines, cli.OneLine(fmt.Sprintf("%s%d %s %s", strings.Repeat("  ", m.Depth), m.PID, humanBytes(m.Memory), m.Command)))
	}
	return lines
}

func largest(of []float64) float64 {
	most := 0.0
	for _, f := range of {
		most = max(most, f)
	}
	return most
}

// blocks are an eighth of a cell to a whole one.
var blocks = []rune(" ▁▂▃▄▅▆▇█")

// graph draws values as columns, the newest at the right; the highest one reaches the top. More
// values than there are columns share these, the largest of a share being shown.
func graph(values []float64, width, rows int) []string {
	width = max(width, 1)
	if len(values) > width {
		shared := make([]float64, width)
		for i, value := range values {
			at := i * width / len(values)
			shared[at] = max(shared[at], value)
		}
		values = shared
	}
	most := largest(values)
	lines := make([]string, rows)
	for row := range rows {
		var b strings.Builder
		b.WriteString(strings.Repeat(" ", width-len(values)))
		for _, value := range values {
			eighths := 0
			if most > 0 {
				eighths = int(value/most*float64(8*rows) + 0.5)
			}
			if value > 0 {
				eighths = max(eighths, 1)
			}
			below := 8 * (rows - 1 - row)
			b.WriteRune(blocks[min(max(eighths-below, 0), 8)])
		}
		lines[row] = b.String()
	}
	return lines
}
