// SPDX-License-Identifier: Apache-2.0

package splice

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

// The parsers recurse, and a stack that overflows ends the process; they make hundreds of bytes of each value,
// and take time with the square of a map's keys. The limits are far beyond any configuration; Claude
// Code keeps its history in one, so JSON may have more.
type limits struct{ size, lines, commas, brackets int }

var (
	jsonLimits  = limits{size: 64 << 20, lines: 64 << 20, commas: 2_000_000, brackets: 400_000}
	otherLimits = limits{size: 1 << 20, lines: 20_000, commas: 20_000, brackets: 10_000}
)

func readable(format Format, data []byte) error {
	most := otherLimits
	if format == JSON {
		most = jsonLimits
	}
	count := func(c byte) int { return bytes.Count(data, []byte{c}) }
	switch {
	case len(data) > most.size:
		return &SyntaxError{Text: fmt.Sprintf("is larger than %d MiB", most.size>>20)}
	case count('\n') > most.lines:
		return &SyntaxError{Text: fmt.Sprintf("has more than %d lines", most.lines)}
	case count(',') > most.commas:
		return &SyntaxError{Text: "has too many values"}
	case count('[')+count('{') > most.brackets:
		return &SyntaxError{Text: "has too many brackets"}
	case bytes.HasPrefix(data, []byte{0xff, 0xfe}), bytes.HasPrefix(data, []byte{0xfe, 0xff}):
		return &SyntaxError{Text: "is UTF-16; clients read UTF-8"}
	}
	for i, rest := 0, data; len(rest) > 0; {
		r, n := utf8.DecodeRune(rest)
		if r == utf8.RuneError && n == 1 {
			line, column := position(data, i)
			return &SyntaxError{Line: line, Column: column, Text: "invalid UTF-8"}
		}
		i, rest = i+n, rest[n:]
	}
	return nil
}
