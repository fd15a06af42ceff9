// SPDX-License-Identifier: Apache-2.0

// Package text makes a line that a terminal can print of text that may be anything.
package text

import (
	"strings"
	"unicode"
)

// Printable replaces characters that control the terminal in text from outside.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsGraphic(r) {
			return r
		}
		return '?'
	}, s)
}

// JoinLines returns the text of an error on one line; joined errors have one line each.
func JoinLines(err error) string { return strings.ReplaceAll(err.Error(), "\n", ", ") }
