// SPDX-License-Identifier: Apache-2.0

package idle

import (
	"slices"
	"strings"

	"github.com/mcpscope/mcpscope/internal/kernel/proc"
)

// isNpm reports whether a member is npm (npx is one, too), and another member has the same stdin: the server
// that it has started. Then npm only waits for its end. It keeps its connection to the registry as long as
// that lasts, perhaps for hours, and nothing waits for npm there. Any server can take that name: then its own
// connections are frozen.
func isNpm(pid int, members []int) bool {
	title, err := proc.Comm(pid)
	if err != nil || !strings.HasPrefix(title, "npm ") {
		return false
	}
	stdin := fileAt(pid, 0)
	return stdin.isConveyed() && slices.ContainsFunc(members, func(other int) bool {
		return other != pid && fileAt(other, 0) == stdin
	})
}
