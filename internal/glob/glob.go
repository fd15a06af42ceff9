// SPDX-License-Identifier: Apache-2.0

// Package glob is about the patterns of command lines that users write.
package glob

import (
	"path"
	"strings"
)

// Find returns the pattern that matches the line, also with the command's base name in front, or
// the base name, or "".
func Find(globs, argv []string) string {
	if len(argv) == 0 || len(globs) == 0 {
		return ""
	}
	line, base := strings.Join(argv, " "), path.Base(argv[0])
	short := base + strings.TrimPrefix(line, argv[0])
	for _, g := range globs {
		if Matches(g, line) || Matches(g, short) || Matches(g, base) {
			return g
		}
	}
	return ""
}

// Matches knows * and ? alone, which may stand for a slash: that is why it is not path.Match.
func Matches(glob, s string) bool {
	star, from := -1, 0
	g := 0
	for i := 0; i < len(s); {
		switch {
		case g < len(glob) && glob[g] == '*':
			star, from = g, i
			g++
		case g < len(glob) && (glob[g] == '?' || glob[g] == s[i]):
			g, i = g+1, i+1
		case star >= 0: // the last star takes one more
			from++
			g, i = star+1, from
		default:
			return false
		}
	}
	return strings.Trim(glob[g:], "*") == ""
}
