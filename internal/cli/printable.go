// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cli

import (
	"strings"
	"unicode"
)

// Acts reports whether a rune controls a terminal: control characters, and characters that change the
// direction of the text.
func Acts(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }

// OneLine replaces characters that control the terminal in text from outside.
func OneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsGraphic(r) {
			return r
		}
		return '?'
	}, s)
}
