// SPDX-License-Identifier: Apache-2.0

//go:build linux

package top

import (
	"fmt"
	"strings"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/show"
)

// detailLines are all that is shown of one server.
func (r *reading) detailLines() []string {
	memory := "not known"
	if r.Memory != nil {
		memory = show.MemoryText(r.Server)
	}
	if r.Peak != nil {
		memory += ", at most " + show.HumanBytes(*r.Peak)
	}
	lines := []string{
		fmt.Sprintf("%s (%s)  %s", r.Name, r.ID, r.State),
		fmt.Sprintf("%s, by %s, %s old, %d processes", r.Backend, show.ClientText(r.Client), show.HumanSeconds(r.Age), r.Processes),
		fmt.Sprintf("CPU%% %s, CPU %s, memory %s", r.Share(), show.HumanSeconds(r.CPU), memory),
	}
	for _, m := range r.tree {
		lines = append(lines, fmt.Sprintf("%s%d %s %s", strings.Repeat("  ", m.Depth), m.PID, show.HumanBytes(m.Memory), m.Command))
	}
	for i := range lines {
		lines[i] = cli.OneLine(lines[i])
	}
	return lines
}
