// SPDX-License-Identifier: Apache-2.0

//go:build linux

package show

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/mcpscope/mcpscope/internal/cli"
)

// gap is between two columns.
const gap = 2

// Column is one of a table.
type Column struct {
	Head string
	// Least is how narrow it may become where the terminal is; 0 means that it is never clipped.
	Least int
	// Most is how wide it may become on a terminal; 0 means that it has no bound.
	Most int
	// KeepEnd clips the beginning: of a path and of NAME[PID] the end says more.
	KeepEnd bool
}

// WriteTable prints a table that is as wide as out, or as it needs to be where out has no width. drop are the
// heads of columns that a narrow terminal has no room for, the first to go first.
func WriteTable(out io.Writer, columns []Column, rows [][]string, drop ...string) {
	writeLines(out, layout(columns, rows, cli.WidthOf(out), drop))
}

// writeLines writes once: a thousand servers are not a thousand writes.
func writeLines(out io.Writer, lines []string) { fmt.Fprintln(out, strings.Join(lines, "\n")) }

// layout has the heads in its first line. The texts may come from anywhere.
func layout(columns []Column, rows [][]string, width int, drop []string) []string {
	heads := make([]string, len(columns))
	widths := make([]int, len(columns))
	for i, c := range columns {
		heads[i] = c.Head
	}
	rows = slices.Insert(rows, 0, heads)
	for _, row := range rows {
		for i, text := range row {
			row[i] = cli.OneLine(text)
			widths[i] = max(widths[i], ansi.StringWidth(row[i]))
		}
	}
	if width > 0 {
		widths = squeezed(columns, widths, width, drop)
	}
	var lines []string
	for _, row := range rows {
		line := ""
		for i, text := range row {
			if w := widths[i]; w >= 0 {
				if columns[i].KeepEnd {
					text = fitEnd(text, w)
				}
				line += Padded(Fit(text, w), w+gap)
			}
		}
		if line = strings.TrimRight(line, " "); width > 0 {
			line = Fit(line, width)
		}
		lines = append(lines, line)
	}
	return lines
}

// squeezed makes columns narrower, the widest first, and drops some (width -1) where that is not enough.
func squeezed(columns []Column, natural []int, width int, drop []string) (widths []int) {
	needed := func() int {
		sum := -gap
		for _, w := range widths {
			if w >= 0 {
				sum += w + gap
			}
		}
		return sum
	}
	for i, c := range columns {
		if c.Most > 0 {
			natural[i] = min(natural[i], c.Most)
		}
	}
	for n := 0; ; n++ {
		widths = slices.Clone(natural)
		for needed() > width {
			widest := -1
			for i, c := range columns {
				if c.Least > 0 && widths[i] > c.Least && (widest < 0 || widths[i] > widths[widest]) {
					widest = i
				}
			}
			if widest < 0 {
				break
			}
			widths[widest]--
		}
		if needed() <= width || n == len(drop) {
			return widths
		}
		for i, c := range columns {
			if c.Head == drop[n] {
				natural[i] = -1
			}
		}
	}
}

// Fit clips a text to n cells of a terminal: a CJK character takes two of them, a combining mark none.
func Fit(s string, n int) string { return ansi.Truncate(s, n, "…") }

func fitEnd(s string, n int) string {
	if over := ansi.StringWidth(s) - n; over > 0 {
		return ansi.TruncateLeft(s, over+1, "…")
	}
	return s
}

// Padded fills a text with blanks to n cells.
func Padded(s string, n int) string { return s + strings.Repeat(" ", max(n-ansi.StringWidth(s), 0)) }
