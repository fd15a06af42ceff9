//go:build linux

package main

import (
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/internal/cli"
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
	if got := cli.OneLine("a\x1b[2J\u202eb\u200bc\xff\n日"); got != "a?[2J?b?c\ufffd?日" {
		t.Errorf("%q", got)
	}
}

// Every width gives lines that fit, and no two columns that touch.
func TestTableFits(t *testing.T) {
	var rows []reading
	for _, v := range someViews() {
		v.Name += strings.Repeat("日本", 30)
		rows = append(rows, reading{view: v})
	}
	for width := 1; width < 200; width++ {
		for _, line := range table(columns(), rows, width) {
			if n := cells(line); n > width {
				t.Errorf("%d cells of %d: %q", n, width, line)
			}
		}
	}
	for width, want := range map[int]string{
		20: "NAME        CPU%  MEMORY"[:20], 80: "ID        NAME            STATE    AGE   PROCS  CPU%  CPU   MEMORY  CLIENT",
		300: "ID        NAME                             STATE    AGE   PROCS  CPU%  CPU   MEMORY  CLIENT        BACKEND       UID",
	} {
		if got := table(columns(), rows, width)[0]; width > 20 && got != want || width == 20 && !strings.HasPrefix(got, "NAME") {
			t.Errorf("at %d cells: %q, want %q", width, got, want)
		}
	}
}

func TestKeys(t *testing.T) {
	for sent, want := range map[string][]rune{
		"q": {'q'}, "\x1b[A\x1bOBj": {keyUp, keyDown, 'j'}, "\x1b[5~\x1b[6~": {keyPageUp, keyPageDown}, "\x1b[1;5A": {keyOther}, "日": {'日'},
		"\r\b": {keyEnter, keyBackspace}, "\xff\xff": {keyOther, keyOther}, "\ue000": {keyOther}, "\x1bq": {keyEscape, 'q'}, "\x1b\x1b[A": {keyEscape, keyUp},
	} {
		var got []rune
		for rest := []byte(sent); len(rest) > 0; {
			var key rune
			var more bool
			if key, rest, more = nextKey(rest); more {
				t.Errorf("%q: more?", sent)
			}
			got = append(got, key)
		}
		if string(got) != string(want) {
			t.Errorf("%q: %x, want %x", sent, got, want)
		}
	}
	for _, part := range []string{"\x1b", "\x1b[", "\x1b[1;", "\xe6\x97"} {
		if _, _, more := nextKey([]byte(part)); !more {
			t.Errorf("%q is taken for whole", part)
		}
	}
}

// The cursor follows its server, and a question is about the one that it named.
func TestTopViewFollowsServers(t *testing.T) {
	v := topView{order: 'n'}
	for _, name := range []string{"a", "b", "c"} {
		v.all = append(v.all, reading{view: view{ID: name, Name: name}})
	}
	v.press(keyDown, 10)
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
