// SPDX-License-Identifier: Apache-2.0

package operate

import (
	"fmt"
	"strings"
	"testing"
)

// Metrics has a line for each server, in each family that this host can tell.
func Metrics(t *testing.T, s Subject) {
	on(t, s, func(t *testing.T, g *ground) {
		server := g.start(nil, g.Probe, "--members", "2")
		text := g.well("metrics")
		labels := fmt.Sprintf("{backend=%q,client=\"client\",id=%q,name=%q} ", s.Name, server.id, g.name)
		for _, line := range []string{
			"mcpscope_server_processes" + labels + "3.0\n", "mcpscope_server_cpu_seconds_total" + labels, "mcpscope_server_start_time_seconds" + labels,
			`mcpscope_servers{state="running"} `,
		} {
			if !strings.Contains(text, line) {
				t.Errorf("metrics has no %q:\n%s", line, text)
			}
		}
		if !strings.HasSuffix(text, "\n# EOF\n") {
			t.Error("metrics has no end")
		}
	})
}
