// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/fleet"
)

// HeldLines are about servers that run on after their client has ended, since another process holds their
// stdin: one line for each such process.
func HeldLines(servers []*fleet.Listed) (lines []string) {
	holders := fleet.Holders(servers)
	held := map[string][]string{}
	var order []string
	for _, s := range servers {
		by := processes(processesOf(holders[s.ID]))
		if by == "" {
			continue
		}
		if !slices.Contains(order, by) {
			order = append(order, by)
		}
		held[by] = append(held[by], s.ID)
	}
	for _, by := range order {
		ids := held[by]
		const text = "%s left by %s: %s still holds the stdin (mcpscope stop %s)"
		lines = append(lines, fmt.Sprintf(text, cli.Counted(len(ids), "server"), clientsOf(servers, ids), by,
			strings.Join(ids[:min(len(ids), idsMost)], " ")))
	}
	return lines
}

// idsMost is how many ids one line has.
const idsMost = 8

// clientsOf names the ended clients of the servers with these ids, each once.
func clientsOf(servers []*fleet.Listed, ids []string) string {
	var names []string
	for _, s := range servers {
		name := s.Client.Name
		if slices.Contains(ids, s.ID) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ") + ", which has ended"
}

func processesOf(stats []proc.Stat) (all []Process) {
	for _, p := range stats {
		all = append(all, Process{p.PID, p.Comm})
	}
	return all
}
