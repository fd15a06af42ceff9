// SPDX-License-Identifier: Apache-2.0

package selection

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mcpscope/mcpscope/internal/remedy"
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

// withNames returns the error about a name with the remedy that the names of servers and sessions give.
func withNames(err *UnknownError, s *Selection, among *Found) error {
	var servers, sessions []string
	for _, l := range among.Servers {
		if s.includesUser(l.UID) {
			servers = append(servers, l.Facts.Name)
		}
	}
	for _, of := range among.Sessions {
		if s.includesUser(of.UID) {
			sessions = append(sessions, of.Name)
		}
	}
	return withHint(err, servers, sessions)
}

// withHint prefers a name that is almost the same to the names that there are.
func withHint(err *UnknownError, servers, sessions []string) error {
	running := Hint(err.Name, servers, "running")
	inside := Hint(err.Name, sessions, "sessions")
	isNearServer := Near(err.Name, servers) != ""
	isNearSession := Near(err.Name, sessions) != ""
	err.IsNear = isNearServer || isNearSession
	switch {
	case isNearServer:
		return remedy.With(err, running)
	case isNearSession:
		return remedy.With(err, inside)
	}
	hints := slices.DeleteFunc([]string{running, inside}, func(hint string) bool { return hint == "" })
	return remedy.With(err, strings.Join(hints, "; "))
}
