// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"strings"
	"unicode/utf8"
)

// Width is the maximum number of columns of a help text.
const Width = 80

// textColumn is the column of explanations in a help text.
const textColumn = 27

// Columns lays out flags or commands with their explanations.
func Columns(rows [][2]string) string {
	var b strings.Builder
	for _, row := range rows {
		line := "  " + row[0]
		if utf8.RuneCountInString(line) > textColumn-2 {
			b.WriteString(line + "\n")
			line = ""
		}
		for _, text := range Wrap(row[1], Width-textColumn) {
			line += strings.Repeat(" ", textColumn-utf8.RuneCountInString(line))
			b.WriteString(line + text + "\n")
			line = ""
		}
	}
	return b.String()
}

// Wrap splits a text at its blanks into lines of at most width characters.
func Wrap(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}
