// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"strings"

	"github.com/mcpscope/mcpscope/internal/cli"
)

// detailLines are all that is shown of one server.
func (r *reading) detailLines() []string {
	memory := "not known"
	if r.Memory != nil {
		memory = memoryText(r.view)
	}
	if r.Peak != nil {
		memory += ", at most " + humanBytes(*r.Peak)
	}
	lines := []string{
		fmt.Sprintf("%s (%s)  %s", r.Name, r.ID, r.State),
		fmt.Sprintf("%s, by %s, %s old, %d processes", r.Backend, clientText(r.Client), humanSeconds(r.Age), r.Processes),
		fmt.Sprintf("CPU%% %s, CPU %s, memory %s", r.share(), humanSeconds(r.CPU), memory),
	}
	for _, m := range r.tree {
		lines = append(lines, fmt.Sprintf("%s%d %s %s", strings.Repeat("  ", m.Depth), m.PID, humanBytes(m.Memory), m.Command))
	}
	for i := range lines {
		lines[i] = cli.OneLine(lines[i])
	}
	return lines
}
