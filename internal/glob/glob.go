// SPDX-License-Identifier: Apache-2.0

// Package glob is about the patterns of command lines that users write.
package glob

import (
	"path"
	"strings"
)

// Find returns the first pattern that matches the line of a command, the line with the base name of the
// command in front, or the base name alone. It returns "" if no pattern does.
func Find(globs, argv []string) string {
	if len(argv) == 0 || len(globs) == 0 {
		return ""
	}
	line := strings.Join(argv, " ")
	base := path.Base(argv[0])
	short := base + strings.TrimPrefix(line, argv[0])
	for _, g := range globs {
		if Matches(g, line) || Matches(g, short) || Matches(g, base) {
			return g
		}
	}
	return ""
}

// Matches reports whether a pattern matches the whole of s. Its wildcards are * and ?, and they match a
// slash: path.Match would not.
func Matches(glob, s string) bool {
	g := 0       // the byte of glob that s[i] has to match
	star := -1   // the last * before g
	matched := 0 // the end of the text that this * matches
	i := 0
	for i < len(s) {
		switch {
		case g < len(glob) && glob[g] == '*':
			star = g
			matched = i
			g++
		case g < len(glob) && (glob[g] == '?' || glob[g] == s[i]):
			g++
			i++
		case star >= 0: // go back: the last star matches one byte more
			matched++
			g = star + 1
			i = matched
		default:
			return false
		}
	}
	return strings.Trim(glob[g:], "*") == ""
}
