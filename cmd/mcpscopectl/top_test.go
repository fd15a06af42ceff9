// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"

	"github.com/mcpscope/mcpscope/internal/server/fleet"
)

func TestCells(t *testing.T) {
	for text, want := range map[string]int{"": 0, "abc": 3, "é": 1, "e\u0301": 1, "日本": 4, "🙂": 2, "\xff": 1, "Ａ": 2} {
		if got := cells(text); got != want {
			t.Errorf("%q takes %d cells, want %d", text, got, want)
		}
	}
	for _, c := range []struct {
		text string
		n    int
		want string
	}{
		{"abcd", 4, "abcd"}, {"abcde", 4, "abc…"}, {"日本語", 6, "日本語"}, {"日本語", 5, "日本…"}, {"日本語", 4, "日…"}, {"日本", 1, "…"},
		{"abc", 0, ""}, {"\xff\xff\xff", 2, "\xff…"}, {strings.Repeat("z", 1) + strings.Repeat("\u0301", 99), 3, "z" + strings.Repeat("\u0301", 7) + "…"},
	} {
		if got := fit(c.text, c.n); got != c.want {
			t.Errorf("%q in %d cells: %q, want %q", c.text, c.n, got, c.want)
		}
	}
}

// Every width gives lines that fit, and no two columns that touch.
func TestTableFits(t *testing.T) {
	var rows []row
	for _, v := range someViews() {
		v.Name += strings.Repeat("日本", 30)
		rows = append(rows, row{view: v})
	}
	for width := 1; width < 200; width++ {
		for _, line := range table(columns(), rows, width) {
			if n := cells(line); n > width {
				t.Errorf("%d cells of %d: %q", n, width, line)
			}
		}
	}
	for width, want := range map[int]string{80: "ID NAME STATE AGE PROCS CPU% CPU MEMORY CLIENT"} {
		head := strings.Fields(table(columns(), rows, width)[0])
		if got := strings.Join(head, " "); !strings.HasPrefix(want, got) || got == "" {
			t.Errorf("at %d cells: %q, want %q", width, got, want)
		}
	}
}

// The cursor follows its server, and a question is about the one that it named.
func TestTopViewFollowsServers(t *testing.T) {
	v := topView{order: 'n'}
	for _, name := range []string{"a", "b", "c"} {
		v.all = append(v.all, reading{row: row{view: view{ID: name, Name: name}}})
	}
	v.press(tea.KeyDown, 10)
	v.press('s', 10)
	if v.press('r', 10); v.asked != "" { // no y
		t.Error("the question stays")
	}
	v.press('s', 10)
	all := v.all
	v.all = []reading{all[0], all[2]} // b has gone
	if w, _ := v.press('y', 10); w != nil {
		t.Errorf("asked about b, it would %s %s", w.verb, w.to.Name)
	}
	v.all = all
	v.press('s', 10)
	v.press('r', 10)
	v.reverse = true
	v.press('s', 10)
	if w, _ := v.press('y', 10); w == nil || w.to.Name != "b" || w.verb != "stop" {
		t.Errorf("%+v, want b", w)
	}
	for height := 1; height < 8; height++ {
		if f := v.frame(30, height); len(f.lines) != height {
			t.Errorf("%d lines of %d", len(f.lines), height)
		}
	}
}

// Details fit any terminal, whatever a server is called, and end with their server.
func TestTopDetails(t *testing.T) {
	r := reading{row: row{view: view{ID: "k3x9w2ab", Name: "time\x1b[2J", Client: processView{1, "c"}}, cpu: 0.5}}
	for i := range 50 {
		r.tree = append(r.tree, fleet.Member{PID: i + 1, Depth: i % 3, Command: "node \x1b[31m" + strings.Repeat("x", 300)})
	}
	v := topView{all: []reading{r}, order: 'c'}
	v.press(tea.KeyEnter, 10)
	for _, size := range [][2]int{{20, 4}, {200, 60}, {1, 1}} {
		f := v.frame(size[0], size[1])
		for _, line := range f.lines {
			if cells(line) > size[0] || strings.ContainsRune(line, '\x1b') || len(f.lines) != size[1] {
				t.Errorf("%v, %d lines: %q", size, len(f.lines), line)
			}
		}
	}
	if f := v.frame(80, 24); !strings.Contains(f.lines[0], "time?[2J (k3x9w2ab)") {
		t.Errorf("%q", f.lines)
	}
	v.all = nil
	if f := v.frame(80, 24); v.details != "" || !strings.Contains(f.lines[23], "it has ended") {
		t.Errorf("%q", f.lines)
	}
}
