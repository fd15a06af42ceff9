// SPDX-License-Identifier: Apache-2.0

package selection

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mcpscope/mcpscope/internal/server/fleet"
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
		if IsNear(arg, name) {
			return fmt.Sprintf("did you mean %s?", name)
		}
	}
	if len(names) > namesMost {
		names = append(names[:namesMost], "…")
	}
	return "running: " + strings.Join(names, ", ")
}

// IsNear reports whether a word is another one but for one letter that is missing, added, changed or swapped
// with its neighbour, or is its beginning.
func IsNear(typed, word string) bool {
	if typed == "" {
		return false
	}
	if strings.HasPrefix(word, typed) {
		return true
	}
	start := 0
	for start < min(len(typed), len(word)) && typed[start] == word[start] {
		start++
	}
	typedRest := typed[start:]
	wordRest := word[start:]
	switch len(typedRest) - len(wordRest) {
	case -1:
		return wordRest[1:] == typedRest
	case 1:
		return typedRest[1:] == wordRest
	case 0:
		isChanged := typedRest == "" || typedRest[1:] == wordRest[1:]
		return isChanged || isSwapped(typedRest, wordRest)
	}
	return false
}

// isSwapped compares texts of one length that differ in their first byte.
func isSwapped(typed, word string) bool {
	return len(typed) > 1 && typed[0] == word[1] && typed[1] == word[0] && typed[2:] == word[2:]
}
