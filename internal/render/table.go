// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"io"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/mcpscope/mcpscope/internal/cli"
)

const (
	gap      = 2  // between two columns
	cellMost = 40 // on a terminal, but for the last column
)

// WriteTable prints a table, whose first row has the heads. A terminal gets clipped lines.
func WriteTable(out io.Writer, rows [][]string) { writeLines(out, layout(rows, cli.WidthOf(out))) }

// WriteWholeTable is WriteTable for what a person decides by: nothing is clipped.
func WriteWholeTable(out io.Writer, rows [][]string) { writeLines(out, layout(rows, 0)) }

// writeLines makes one Write of all lines, which may be thousands. Without lines it writes nothing.
func writeLines(out io.Writer, lines []string) {
	fmt.Fprint(out, strings.Join(append(lines, ""), "\n"))
}

// layout clips nothing if width is 0.
func layout(rows [][]string, width int) (lines []string) {
	makeHarmless(rows, width)
	widths := columnWidths(rows)
	for _, row := range rows {
		line := ""
		for i, text := range row {
			line += Padded(text, widths[i]+gap)
		}
		line = strings.TrimRight(line, " ")
		if width > 0 {
			line = Fit(line, width)
		}
		lines = append(lines, line)
	}
	return lines
}

// makeHarmless replaces the texts, which may come from anywhere, by texts that no terminal acts on. On a
// terminal it clips long ones.
func makeHarmless(rows [][]string, width int) {
	for _, row := range rows {
		for i, text := range row {
			row[i] = cli.OneLine(text)
			if width > 0 && i < len(row)-1 {
				row[i] = clipped(row[i])
			}
		}
	}
}

// columnWidths are the cells that each column needs.
func columnWidths(rows [][]string) []int {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, text := range row {
			widths[i] = max(widths[i], ansi.StringWidth(text))
		}
	}
	return widths
}

// totalWidth is how many cells a table needs.
func totalWidth(rows [][]string) int {
	total := -gap
	for _, width := range columnWidths(rows) {
		total += width + gap
	}
	return total
}

// clipped keeps the end of a path.
func clipped(text string) string {
	over := ansi.StringWidth(text) - cellMost
	isPath := strings.Contains(text, "/")
	if over > 0 && isPath {
		return ansi.TruncateLeft(text, over+1, "…")
	}
	return Fit(text, cellMost)
}

// Fit clips a text to n cells of a terminal: a CJK character takes two of them, a combining mark none.
func Fit(s string, n int) string { return ansi.Truncate(s, n, "…") }

// Padded fills a text with blanks to n cells.
func Padded(s string, n int) string { return s + strings.Repeat(" ", max(n-ansi.StringWidth(s), 0)) }
