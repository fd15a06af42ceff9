// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/fleet"
)

// idsMost is how many ids one line has.
const idsMost = 8

// HeldLines are about servers that run on after their client has ended, since another process holds their
// stdin: one line for each such process.
func HeldLines(servers []*fleet.Listed) (lines []string) {
	holdersOf := fleet.Holders(servers)
	held := map[string][]*fleet.Listed{} // by the text of their holders
	var order []string
	for _, s := range servers {
		holders := joinProcesses(processesOf(holdersOf[s.Placed.ID]))
		if holders == "" {
			continue
		}
		if held[holders] == nil {
			order = append(order, holders)
		}
		held[holders] = append(held[holders], s)
	}
	for _, holders := range order {
		lines = append(lines, heldLine(holders, held[holders]))
	}
	return lines
}

// heldLine names the ended clients of the servers, each once.
func heldLine(holders string, servers []*fleet.Listed) string {
	var ids, clients []string
	for _, s := range servers {
		ids = append(ids, s.Placed.ID)
		if !slices.Contains(clients, s.Facts.Client.Name) {
			clients = append(clients, s.Facts.Client.Name)
		}
	}
	const text = "%s left by %s, which has ended: %s still holds the stdin (mcpscope stop %s)"
	return fmt.Sprintf(text, cli.Counted(len(ids), "server"), strings.Join(clients, ", "), holders,
		strings.Join(ids[:min(len(ids), idsMost)], " "))
}

func processesOf(stats []proc.Stat) (processes []Process) {
	for _, p := range stats {
		processes = append(processes, Process{PID: p.PID, Name: p.Comm})
	}
	return processes
}
