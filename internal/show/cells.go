// SPDX-License-Identifier: Apache-2.0

//go:build linux

package show

import (
	"strings"
	"unicode"

	"golang.org/x/text/width"
)

// marksMost is how many characters a cell may have: marks stack up over other lines.
const marksMost = 4

func runeCells(r rune) int {
	if r < 0x300 {
		return 1 // nearly all there is
	}
	if unicode.In(r, unicode.Mn, unicode.Me) {
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// cells is how many the text takes.
func Cells(s string) int {
	n := 0
	for _, r := range s {
		n += runeCells(r)
	}
	return n
}

// fit clips the text to n cells.
func Fit(s string, n int) string {
	if Cells(s) <= n && len(s) <= marksMost*n {
		return s
	}
	if n < 1 {
		return ""
	}
	used, runes := 0, 0
	for i, r := range s {
		w := runeCells(r)
		if used+w > n-1 || runes >= marksMost*(n-1) { // the last cell is for the mark
			return s[:i] + "…"
		}
		used, runes = used+w, runes+1
	}
	return s
}

// fitEnd clips the beginning of the text: of a path the end says more.
func FitEnd(s string, n int) string {
	if Cells(s) <= n {
		return s
	}
	runes, used := []rune(s), 0
	for i := len(runes); i > 0; i-- {
		w := runeCells(runes[i-1])
		if used+w > n-1 {
			return Fit("…"+string(runes[i:]), n)
		}
		used += w
	}
	return s
}

// fitName clips the name before "[PID]", and not that.
func FitName(s string, n int) string {
	at := strings.LastIndexByte(s, '[')
	if at < 0 || Cells(s) <= n || n <= Cells(s[at:]) {
		return Fit(s, n)
	}
	return Fit(s[:at], n-Cells(s[at:])) + s[at:]
}

// padded fills the text with blanks to n cells.
func Padded(s string, n int) string { return s + strings.Repeat(" ", max(n-Cells(s), 0)) }
