// SPDX-License-Identifier: Apache-2.0

//go:build linux

package show

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/mcpscope/mcpscope/internal/cli"
)

// gap is between two columns.
const gap = 2

// row is a server in a table.
type Row struct {
	Server
	// cpu is the part of one processor that it has used since the reading before; negative in the
	// first one.
	Cpu float64
}

func (r *Row) Share() string {
	if r.Cpu < 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f", 100*r.Cpu)
}

// column is one of a table about servers.
type Column struct {
	Head string
	text func(Row) string
	// least is how narrow it may become where the terminal is; 0 means that it is never clipped.
	Least int
	// most is how wide it may become on a terminal; 0 means that it has no bound.
	Most int
	// clip makes a text fit; nil is fit.
	Clip func(text string, n int) string
}

// dropped are columns that a terminal of few characters has no room for, the first to go first.
var dropped = []string{"BACKEND", "UID", "CLIENT", "CPU", "AGE", "PROCS", "STATE", "ID"}

// table is laid out for width cells, or as wide as it needs to be for 0. The first line has the
// heads.
func Table(columns []Column, rows []Row, width int) []string {
	lines := make([][]string, len(rows))
	for i, r := range rows {
		for _, c := range columns {
			lines[i] = append(lines[i], c.text(r))
		}
	}
	return layout(columns, lines, width, dropped)
}

// writeLines prints a table of texts.
func WriteLines(out io.Writer, columns []Column, lines [][]string, width int, drop ...string) {
	for _, line := range layout(columns, lines, width, drop) {
		fmt.Fprintln(out, line)
	}
}

// layout is table of texts, which anybody may have written. drop are the columns that go first where there is no room.
func layout(columns []Column, lines [][]string, width int, drop []string) []string {
	var heads []string
	for _, c := range columns {
		heads = append(heads, c.Head)
	}
	lines = slices.Insert(lines, 0, heads)
	widths := make([]int, len(columns))
	for _, line := range lines {
		for i, text := range line {
			line[i] = cli.OneLine(text)
			widths[i] = max(widths[i], Cells(line[i]))
		}
	}
	if width > 0 {
		for i, c := range columns {
			if c.Most > 0 {
				widths[i] = min(widths[i], c.Most)
			}
		}
		squeeze(columns, widths, width, drop)
	}
	return joined(columns, lines, widths, width)
}

// squeeze makes columns narrower, the widest first, and drops some (width -1) where that is not
// enough.
func squeeze(columns []Column, widths []int, width int, drop []string) {
	natural := slices.Clone(widths)
	for _, drop := range append([]string{""}, drop...) {
		for i, c := range columns {
			if c.Head == drop {
				natural[i] = -1
			}
		}
		copy(widths, natural)
		for needed(widths) > width {
			i := widest(columns, widths)
			if i < 0 {
				break
			}
			widths[i]--
		}
		if needed(widths) <= width {
			return
		}
	}
}

// widest is the widest column that may be narrower, or -1.
func widest(columns []Column, widths []int) int {
	at := -1
	for i, c := range columns {
		if c.Least > 0 && widths[i] > c.Least && (at < 0 || widths[i] > widths[at]) {
			at = i
		}
	}
	return at
}

func needed(widths []int) int {
	sum := -gap
	for _, w := range widths {
		if w >= 0 {
			sum += w + gap
		}
	}
	return sum
}

func joined(columns []Column, lines [][]string, widths []int, width int) []string {
	var all []string
	for _, line := range lines {
		var b strings.Builder
		for i, text := range line {
			if w := widths[i]; w >= 0 {
				clip := Fit
				if columns[i].Clip != nil {
					clip = columns[i].Clip
				}
				b.WriteString(Padded(clip(text, w), w+gap))
			}
		}
		text := strings.TrimRight(b.String(), " ")
		if width > 0 {
			text = Fit(text, width)
		}
		all = append(all, text)
	}
	return all
}

// without leaves out the columns of these heads.
func Without(columns []Column, heads ...string) []Column {
	return slices.DeleteFunc(columns, func(c Column) bool { return slices.Contains(heads, c.Head) })
}
