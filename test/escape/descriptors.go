// SPDX-License-Identifier: Apache-2.0

package escape

import (
	"strconv"
	"strings"
	"testing"
)

// FewDescriptors starts servers with 10 to 40 open files: each is in a group, or was refused.
func FewDescriptors(t *testing.T, run func(argv ...string) Outcome, mcpscope string) {
	t.Helper()
	started, refused := 0, 0
	for limit := 10; limit <= 40; limit++ {
		const script = `ulimit -n "$1" && exec "$2" run -- cat /proc/self/cgroup`
		o := run("sh", "-c", script, "sh", strconv.Itoa(limit), mcpscope)
		switch {
		case o.Status.ExitStatus() == 0 && strings.Contains(o.Stdout, "/mcp-"):
			started++
		case o.Status.ExitStatus() == 125 && o.Stdout == "":
			refused++
		default:
			t.Errorf("with %d open files: status %d, %q, %q", limit, o.Status.ExitStatus(), o.Stdout, o.Stderr)
		}
	}
	if started == 0 || refused == 0 {
		t.Errorf("%d started and %d refused: the limits are not around the one that matters", started, refused)
	}
}
