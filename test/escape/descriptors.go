// SPDX-License-Identifier: Apache-2.0

package escape

import (
	"strconv"
	"strings"
	"testing"
)

// Fewest is the limit of open files below which no server starts: it could not be stopped.
const Fewest = 32

// FewDescriptors starts servers with 4 to 40 open files: each is in a group, or was refused.
func FewDescriptors(t *testing.T, run func(argv ...string) Outcome, mcpscope string) {
	t.Helper()
	for limit := 4; limit <= 40; limit++ {
		const script = `ulimit -n "$1" && exec "$2" run -- cat /proc/self/cgroup`
		o := run("sh", "-c", script, "sh", strconv.Itoa(limit), mcpscope)
		started := o.Status.ExitStatus() == 0 && strings.Contains(o.Stdout, "/mcp-")
		refused := o.Status.ExitStatus() == 125 && o.Stdout == "" && strings.Contains(o.Stderr, "raise it to 32 at least (ulimit -n)")
		if started != (limit >= Fewest) || refused != (limit < Fewest) {
			t.Errorf("with %d open files: status %d, %q, %q", limit, o.Status.ExitStatus(), o.Stdout, o.Stderr)
		}
	}
}
