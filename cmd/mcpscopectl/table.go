// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/cli"
)

// gap is between two columns.
const gap = 2

// row is a server in a table.
type row struct {
	view
	// cpu is the part of one processor that it has used since the reading before; negative in the
	// first one.
	cpu float64
}

func (r *row) share() string {
	if r.cpu < 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f", 100*r.cpu)
}

// column is one of a table about servers.
type column struct {
	head string
	text func(row) string
	// least is how narrow it may become where the terminal is; 0 means that it is never clipped.
	least int
	// most is how wide it may become on a terminal; 0 means that it has no bound.
	most int
	// clip makes a text fit; nil is fit.
	clip func(text string, n int) string
}

// dropped are columns that a terminal of few characters has no room for, the first to go first.
var dropped = []string{"BACKEND", "UID", "CLIENT", "CPU", "AGE", "PROCS", "STATE", "ID"}

// table is laid out for width cells, or as wide as it needs to be for 0. The first line has the
// heads.
func table(columns []column, rows []row, width int) []string {
	lines := make([][]string, len(rows))
	for i, r := range rows {
		for _, c := range columns {
			lines[i] = append(lines[i], c.text(r))
		}
	}
	return layout(columns, lines, width, dropped)
}

// writeLines prints a table of texts.
func writeLines(out io.Writer, columns []column, lines [][]string, width int, drop ...string) {
	for _, line := range layout(columns, lines, width, drop) {
		fmt.Fprintln(out, line)
	}
}

// layout is table of texts, which anybody may have written. drop are the columns that go first where there is no room.
func layout(columns []column, lines [][]string, width int, drop []string) []string {
	var heads []string
	for _, c := range columns {
		heads = append(heads, c.head)
	}
	lines = slices.Insert(lines, 0, heads)
	widths := make([]int, len(columns))
	for _, line := range lines {
		for i, text := range line {
			line[i] = cli.OneLine(text)
			widths[i] = max(widths[i], cells(line[i]))
		}
	}
	if width > 0 {
		for i, c := range columns {
			if c.most > 0 {
				widths[i] = min(widths[i], c.most)
			}
		}
		squeeze(columns, widths, width, drop)
	}
	return joined(columns, lines, widths, width)
}

// squeeze makes columns narrower, the widest first, and drops some (width -1) where that is not
// enough.
func squeeze(columns []column, widths []int, width int, drop []string) {
	natural := slices.Clone(widths)
	for _, drop := range append([]string{""}, drop...) {
		for i, c := range columns {
			if c.head == drop {
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
func widest(columns []column, widths []int) int {
	at := -1
	for i, c := range columns {
		if c.least > 0 && widths[i] > c.least && (at < 0 || widths[i] > widths[at]) {
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

func joined(columns []column, lines [][]string, widths []int, width int) []string {
	var all []string
	for _, line := range lines {
		var b strings.Builder
		for i, text := range line {
			if w := widths[i]; w >= 0 {
				clip := fit
				if columns[i].clip != nil {
					clip = columns[i].clip
				}
				b.WriteString(padded(clip(text, w), w+gap))
			}
		}
		text := strings.TrimRight(b.String(), " ")
		if width > 0 {
			text = fit(text, width)
		}
		all = append(all, text)
	}
	return all
}

// onTerminal tells whether a person reads what is printed.
func onTerminal(out io.Writer) bool {
	f := cli.File(out)
	if f == nil {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// sayNone says on a terminal that there is nothing to print; elsewhere no output is what a script expects.
func sayNone(out io.Writer, text string) {
	if onTerminal(out) {
		fmt.Fprintln(out, cli.OneLine(text))
	}
}

// widthOf is how many cells a line may have: 0, if out is no terminal, or one that does not know its size.
func widthOf(out io.Writer) int {
	f := cli.File(out)
	if f == nil {
		return 0
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Col)
}

// without leaves out the columns of these heads.
func without(columns []column, heads ...string) []column {
	return slices.DeleteFunc(columns, func(c column) bool { return slices.Contains(heads, c.head) })
}
