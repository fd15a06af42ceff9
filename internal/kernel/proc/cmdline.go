// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"
)

// oneLine makes the contents of /proc/PID/cmdline printable: valid UTF-8, on one line, never longer than b.
func oneLine(b []byte) string {
	b = bytes.TrimRight(b, "\x00")
	var out strings.Builder
	for len(b) > 0 {
		r, size := utf8.DecodeRune(b)
		b = b[size:]
		switch {
		case r == 0:
			out.WriteByte(' ')
		case r == utf8.RuneError && size == 1, misleads(r):
			out.WriteByte('?')
		default:
			out.WriteRune(r)
		}
	}
	return out.String()
}

// misleads reports runes that control a terminal: control characters, line separators, and characters that
// change the direction of the text.
func misleads(r rune) bool {
	return unicode.IsControl(r) || r == 0x2028 || r == 0x2029 ||
		r >= 0x202A && r <= 0x202E || r >= 0x2066 && r <= 0x2069
}
