// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"

	"github.com/mcpscope/mcpscope/internal/server/fleet"
)

// HeldLines are about servers that run on after their client has ended, since another process holds their
// stdin.
func HeldLines(servers []*fleet.Listed) (lines []string) {
	holders := fleet.Holders(servers)
	for _, s := range servers {
		var all []Process
		for _, p := range holders[s.ID] {
			all = append(all, Process{p.PID, p.Comm})
		}
		if len(all) == 0 {
			continue
		}
		const text = "%s (%s): its client has ended, and its stdin is still held by %s (mcpscope stop %[2]s)"
		lines = append(lines, fmt.Sprintf(text, s.Name, s.ID, processes(all)))
	}
	return lines
}
