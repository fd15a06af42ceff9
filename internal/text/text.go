// SPDX-License-Identifier: Apache-2.0

// Package text makes a line that a terminal can print of text that may be anything.
package text

import (
	"fmt"
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

// Counted returns a number and a noun.
func Counted[N int | uint64](n N, noun string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(noun, "s"):
		noun += "es"
	default:
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// JoinLines returns the text of an error on one line; joined errors have one line each.
func JoinLines(err error) string { return strings.ReplaceAll(err.Error(), "\n", ", ") }
