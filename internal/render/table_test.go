// SPDX-License-Identifier: Apache-2.0

package render

import (
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
)

func TestCells(t *testing.T) {
	for text, want := range map[string]int{"": 0, "abc": 3, "é": 1, "e\u0301": 1, "日本": 4, "🙂": 2, "Ａ": 2} {
		if got := ansi.StringWidth(text); got != want {
			t.Errorf("%q takes %d cells, want %d", text, got, want)
		}
	}
	for _, c := range []struct {
		text string
		n    int
		want string
	}{
		{"abcd", 4, "abcd"}, {"abcde", 4, "abc…"}, {"日本語", 6, "日本語"}, {"日本語", 5, "日本…"}, {"日本語", 4, "日…"}, {"日本", 1, "…"},
		{"abc", 0, ""},
	} {
		if got := Fit(c.text, c.n); got != c.want {
			t.Errorf("%q in %d cells: %q, want %q", c.text, c.n, got, c.want)
		}
	}
}

// Every width gives lines that fit.
func TestTableFits(t *testing.T) {
	var rows []Row
	for _, v := range someViews() {
		v.Name += strings.Repeat("日本", 30)
		rows = append(rows, Row{Server: v})
	}
	for width := 1; width < 200; width++ {
		for _, line := range Watched(rows, width, true) {
			if n := ansi.StringWidth(line); n > width {
				t.Errorf("%d cells of %d: %q", n, width, line)
			}
		}
	}
}

// A narrow terminal loses whole columns, and the memory last of all.
func TestNarrowTableKeepsTheMemory(t *testing.T) {
	var rows []Row
	for _, v := range someViews() {
		rows = append(rows, Row{Server: v})
	}
	rows[0].Server.Name = strings.Repeat("x", 60)
	for width, want := range map[int]string{
		26: "ID NAME MEMORY", 35: "ID NAME MEMORY", 90: "ID NAME STATE AGE PROCS CPU% MEMORY",
		300: "ID NAME STATE AGE PROCS CPU% CPU MEMORY CLIENT PROJECT BACKEND UID",
	} {
		lines := Watched(rows, width, true)
		if got := strings.Join(strings.Fields(lines[0]), " "); got != want {
			t.Errorf("%d cells: %s, want %s", width, got, want)
		}
		if !strings.Contains(lines[1], "50M") {
			t.Errorf("%d cells: no memory in %q", width, lines[1])
		}
	}
}
