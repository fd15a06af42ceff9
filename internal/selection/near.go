// SPDX-License-Identifier: Apache-2.0

package selection

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mcpscope/mcpscope/internal/server/fleet"
	"github.com/mcpscope/mcpscope/internal/similar"
	"github.com/mcpscope/mcpscope/internal/text"
)

// namesMost is how many names of servers a hint has.
const namesMost = 5

// hintFor returns what a person can have meant by a name that no server has: the name that is almost the
// same, or else the names that there are. It is "" without servers.
func hintFor(servers []*fleet.Listed, arg string) string {
	var names []string
	for _, s := range servers {
		names = append(names, text.Printable(s.Name))
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) == 0 {
		return ""
	}
	for _, name := range names {
		if similar.Is(arg, name) {
			return fmt.Sprintf("did you mean %s?", name)
		}
	}
	if len(names) > namesMost {
		names = append(names[:namesMost], "…")
	}
	return "running: " + strings.Join(names, ", ")
}
