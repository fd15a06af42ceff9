// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"os"

	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/client"
)

// hasClient reports whether one process, as a rule an ancestor below the gateway or the gateway itself, has
// the other ends of a program's stdin and stdout, as a client of MCP does. In `cat log.jsonl | python3
// analyze.py | sort` one process writes and another one reads: the program is a filter, whose input happens
// to be MCP. It is true if that cannot be found out.
func (w *watcher) hasClient(c *candidate) bool {
	in := c.stdin.opposite()
	out := c.stdout.opposite()
	seen := map[int]bool{c.pid: true, os.Getpid(): true}
	for above := c.pid; above != c.client.PID && len(seen) < ancestorsMost; {
		st, err := proc.ReadStat(above)
		if err != nil || st.PPID <= 1 || seen[st.PPID] {
			break
		}
		above = st.PPID
		seen[above] = true
		if hasBoth(above, in, out) {
			return true
		}
	}
	found := false // a process that is no ancestor any more, or never was
	err := proc.Each(func(other int) bool {
		writes, reads, err := client.HasEnds(other, in, out) // that of another user is not its client
		found = !seen[other] && err == nil && writes && reads
		return !found
	})
	return found || err != nil
}

func (f file) opposite() client.End { return client.EndOpposite(f.File, f.isSocket()) }

// hasBoth is true for an ancestor that may not be read, such as sudo.
func hasBoth(pid int, in, out client.End) bool {
	writes, reads, err := client.HasEnds(pid, in, out)
	return err != nil && !proc.IsGone(err) || writes && reads
}
