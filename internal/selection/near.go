// SPDX-License-Identifier: Apache-2.0

package selection

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mcpscope/mcpscope/internal/remedy"
	"github.com/mcpscope/mcpscope/internal/server/fleet"
	"github.com/mcpscope/mcpscope/internal/similar"
	"github.com/mcpscope/mcpscope/internal/text"
)

// namesMost is how many names of servers a hint has.
const namesMost = 5

// Near returns the name that is almost the same, or "".
func Near(arg string, names []string) string {
	near := similar.Among(arg, names)
	if len(near) == 0 {
		return ""
	}
	return near[0]
}

// Hint returns a remedy for a name that no server has: the name that is almost the same, or else the names
// that there are, with their place. It is "" without names.
func Hint(arg string, names []string, place string) string {
	var printable []string
	for _, name := range names {
		printable = append(printable, text.Printable(name))
	}
	slices.Sort(printable)
	printable = slices.Compact(printable)
	if len(printable) == 0 {
		return ""
	}
	near := Near(arg, printable)
	if near != "" {
		return fmt.Sprintf("did you mean %s?", near)
	}
	if len(printable) > namesMost {
		printable = append(printable[:namesMost], "…")
	}
	return place + ": " + strings.Join(printable, ", ")
}

// withNames returns the error about a name with the remedy that the names of servers give.
func withNames(err *UnknownError, servers []*fleet.Listed) error {
	var names []string
	for _, s := range servers {
		names = append(names, s.Name)
	}
	err.IsNear = Near(err.Arg, names) != ""
	return remedy.With(err, Hint(err.Arg, names, "running"))
}

// withSessions adds the names of sessions to the remedy of a name that no server has.
func withSessions(err error, sessions []string) error {
	unknown, isUnknown := errors.AsType[*UnknownError](err)
	if !isUnknown || unknown.IsNear {
		return err
	}
	unknown.IsNear = Near(unknown.Arg, sessions) != ""
	hint := Hint(unknown.Arg, sessions, "sessions")
	before := remedy.Of(err)
	if before != "" && hint != "" && !unknown.IsNear {
		hint = before + "; " + hint
	}
	return remedy.With(err, hint)
}
