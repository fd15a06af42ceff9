// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"os"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/test/host"
)

// A gateway's servers have its limits each, those that it knows before they run from the first instruction;
// one whose limits can't be had is not started.
func TestGateway(t *testing.T) {
	const program = "/srv/limits-mcp"
	script := "#!/bin/sh\n" + group + "echo limited to $(cat $g/memory.max)\n"
	if err := os.WriteFile(program, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(program) }) // it was made here
	for _, b := range backends() {
		if b.user.UID != host.Root.UID || b.name == "delegated" {
			continue // as the others
		}
		t.Run(b.name, func(t *testing.T) {
			if b.name == "cgroup" {
				withhold(t)
			}
			line := []string{"gateway", "--backend", b.name, "--eof-grace", "60s", "--memory-max", "64M",
				"--match", program, "--", "sh", "-c", "true | " + program + " | cat"}
			if !b.has("memory") || b.prepare != nil {
				out, stderr, status := b.result(t, line...)
				if status != 125 || out != "" || !strings.HasPrefix(stderr, "mcpscope: cannot limit the servers of \"sh\": set memory.max=67108864: ") || !strings.Contains(stderr, "\nmcpscope: hint: ") {
					t.Errorf("status %d, %q; stderr: %s", status, out, stderr)
				}
				line = append([]string{"gateway", "--limits=best-effort"}, line[1:]...)
				if out, _, status := b.result(t, line...); status != 0 || !strings.HasPrefix(out, "limited to") {
					t.Errorf("best effort: status %d, %q", status, out)
				}
				if b.prepare == nil {
					return
				}
				b.prepare(t)
				line = append([]string{"gateway"}, line[2:]...)
			}
			if out := b.succeed(t, line...); out != "limited to 67108864\n" {
				t.Errorf("it says %q", out)
			}
		})
	}
}
