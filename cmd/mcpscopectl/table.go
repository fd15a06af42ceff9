// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/cli"
)

// gap is between two columns.
const gap = 2

// column is one of a table about servers.
type column struct {
	head string
	text func(reading) string
	// least is how narrow it may become where the terminal is; 0 means that it is never clipped.
	least int
}

// dropped are columns that a terminal of few characters has no room for, the first to go first.
var dropped = []string{"BACKEND", "UID", "CLIENT", "CPU", "AGE", "PROCS", "STATE", "ID"}

// table is laid out for width cells, or as wide as it needs to be for 0. The first line has the
// heads.
func table(columns []column, rows []reading, width int) []string {
	lines := make([][]string, len(rows)+1)
	for _, c := range columns {
		lines[0] = append(lines[0], c.head)
	}
	for i, r := range rows {
		for _, c := range columns {
			lines[i+1] = append(lines[i+1], cli.OneLine(c.text(r)))
		}
	}
	widths := make([]int, len(columns))
	for _, line := range lines {
		for i, text := range line {
			widths[i] = max(widths[i], cells(text))
		}
	}
	if width > 0 {
		squeeze(columns, widths, width)
	}
	return joined(lines, widths, width)
}

// squeeze makes columns narrower, the widest first, and drops some (width -1) where that is not
// enough.
func squeeze(columns []column, widths []int, width int) {
	natural := slices.Clone(widths)
	for _, drop := range append([]string{""}, dropped...) {
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

func joined(lines [][]string, widths []int, width int) []string {
	var all []string
	for _, line := range lines {
		var b strings.Builder
		for i, text := range line {
			if w := widths[i]; w >= 0 {
				b.WriteString(padded(fit(text, w), w+gap))
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

// widthOf is how many cells a line may have: 0, if out is no terminal.
func widthOf(out io.Writer) int {
	if f, ok := out.(*os.File); ok {
		width, _ := windowOf(int(f.Fd()))
		return width
	}
	return 0
}

// windowOf is 0, 0 for what is no terminal, or one that does not know its size.
func windowOf(fd int) (width, height int) {
	size, err := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ)
	if err != nil {
		return 0, 0
	}
	return int(size.Col), int(size.Row)
}

// without leaves out the columns of these heads.
func without(columns []column, heads ...string) []column {
	return slices.DeleteFunc(columns, func(c column) bool { return slices.Contains(heads, c.head) })
}
