// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cli

import (
	"strings"
	"unicode"
)

// Acts tells whether a terminal does something else with it than show it: control characters,
// and those that turn the direction of writing.
func Acts(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }

// OneLine keeps what came from outside from writing to the terminal as it likes.
func OneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsGraphic(r) {
			return r
		}
		return '?'
	}, s)
}
