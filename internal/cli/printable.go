// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"strings"
	"unicode"
)

// OneLine replaces characters that control the terminal in text from outside.
func OneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsGraphic(r) {
			return r
		}
		return '?'
	}, s)
}
