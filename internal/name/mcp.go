// SPDX-License-Identifier: Apache-2.0

package name

import (
	"path"
	"slices"
	"strings"
)

// MCP returns the name of a program, or of the package, module or script that it is given to run, if that has
// mcp as a word, or is one of the protocol's own servers; otherwise "". It is narrow: workers of a gateway,
// and tasks of an agent, are run by the same programs as servers are.
func MCP(argv []string) string {
	if len(argv) == 0 {
		return ""
	}
	names := []string{path.Base(argv[0])}
	isScript := KindOf(argv[0]) == Shell && ofScript(argv) != nil
	if !isScript { // that may be a tool of an agent
		names = append(names, Derive(argv))
	}
	for _, called := range names {
		split := func(r rune) bool { return strings.ContainsRune("-_.", r) }
		if slices.Contains(strings.FieldsFunc(strings.ToLower(called), split), "mcp") {
			return called
		}
	}
	isOfficial := func(arg string) bool { return strings.Contains(arg, "@modelcontextprotocol/server-") }
	if KindOf(argv[0]) != Other && slices.ContainsFunc(argv, isOfficial) {
		return Derive(argv)
	}
	return ""
}
