// SPDX-License-Identifier: Apache-2.0

package top

import (
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/mcpscope/mcpscope/internal/render"
	"github.com/mcpscope/mcpscope/internal/server/fleet"
	"github.com/mcpscope/mcpscope/internal/server/names"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

func rowOf(server render.Identity) render.Row {
	return render.Row{Server: render.Server{Identity: server}}
}

// The cursor follows its server, and a question is about the one that it named.
func TestTopViewFollowsServers(t *testing.T) {
	v := view{order: "n"}
	for _, name := range []string{"a", "b", "c"} {
		v.readings = append(v.readings, reading{row: rowOf(render.Identity{ID: name, Name: name})})
	}
	v.press("down", 10)
	v.press("s", 10)
	if v.press("x", 10); v.asked.verb != "" || v.note != "not stopped" { // no y
		t.Error("the question stays")
	}
	v.press("s", 10)
	all := v.readings
	v.readings = []reading{all[0], all[2]} // b has ended
	if w, _ := v.press("y", 10); w != nil {
		t.Errorf("asked about b, it would %s %s", w.verb, w.target.row.Server.Name)
	}
	v.readings = all
	v.press("s", 10)
	v.press("x", 10)
	v.press("s", 10)
	if w, _ := v.press("y", 10); w == nil || w.target.row.Server.Name != "b" || w.verb != "stop" {
		t.Errorf("%+v, want b", w)
	}
	v.press("f", 10)
	if v.asked.verb != "freeze" || !strings.HasPrefix(v.lastLine(), "Freeze b (b)?") {
		t.Errorf("f asks nothing: %q", v.lastLine())
	}
	if w, _ := v.press("y", 10); w == nil || w.target.row.Server.Name != "b" || w.verb != "freeze" {
		t.Errorf("%+v, want b", w)
	}
	v.readings[1].row.Server.State = fleet.Frozen
	if w, _ := v.press("f", 10); w == nil || w.verb != "thaw" {
		t.Errorf("a frozen server is not thawed at once: %+v", w)
	}
	for height := 1; height < 8; height++ {
		if lines := v.lines(30, height); len(lines) != height {
			t.Errorf("%d lines of %d", len(lines), height)
		}
	}
}

// The details are about one server, so keys of the list do nothing there that a person would find afterwards.
func TestKeysOfTheListDoNothingInDetails(t *testing.T) {
	v := view{order: "c", readings: []reading{{row: rowOf(render.Identity{ID: "a", Name: "a"})}}}
	v.press("enter", 10)
	for _, pressed := range []string{"/", "t", "i", "m", "c", "a", "n", "p"} {
		if w, quit := v.press(pressed, 10); w != nil || quit {
			t.Errorf("%s: %+v, quit %v", pressed, w, quit)
		}
	}
	if v.order != "c" || v.filter.isTyped() || v.filter.text != "" || v.details == "" {
		t.Errorf("order %q, typing %v, filter %q, details %q", v.order, v.filter.isTyped(), v.filter.text, v.details)
	}
	v.press("q", 10)
	if v.press("m", 10); v.order != "m" {
		t.Errorf("in the list, m sorts by %q", v.order)
	}
}

// The line of a session is above its servers. Keys do not act on it, and say what does.
func TestTopOfSessions(t *testing.T) {
	v := view{order: "n", sessions: []render.Server{{Identity: render.Identity{ID: "p4xw7nza", Name: "claude"}, Servers: 1}}}
	inside := rowOf(render.Identity{ID: "b", Name: "b", InSession: "p4xw7nza"})
	v.readings = []reading{{row: rowOf(render.Identity{ID: "a", Name: "a"})}, {row: inside}}
	v.press("down", 10)
	if w, _ := v.press("s", 10); w != nil || v.asked.verb != "" || !strings.Contains(v.note, "stop p4xw7nza") {
		t.Errorf("on a session: %+v, %+v, %q", w, v.asked, v.note)
	}
	v.press("down", 10)
	v.press("s", 10)
	if v.asked.server != key(inside) {
		t.Errorf("below it: %+v", v.asked)
	}
	screen := strings.Join(v.lines(80, 6), "\n")
	at := strings.Index(screen, "claude: 1 server")
	if at < 0 || !strings.Contains(screen[at:], "  b ") {
		t.Errorf("the screen:\n%s", screen)
	}
}

// The filter searches all texts that the help names, and takes blanks.
func TestTopFilter(t *testing.T) {
	git := render.Identity{
		ID: "k3x9w2ab", Name: "my Git", Client: render.Process{PID: 1, Name: "hermes"}, State: fleet.Frozen,
		Backend: names.Tree, Origin: protocol.Origin{Project: "shop"},
	}
	v := view{readings: []reading{{row: rowOf(git)}}, order: "c"}
	for filter, want := range map[string]int{"k3x9": 1, "Y g": 1, "hermes": 1, "shop": 1, "frozen": 1, "tree": 1, "x y": 0} {
		v.press("/", 10)
		for _, r := range filter {
			v.filter.update(tea.KeyPressMsg{Code: r, Text: string(r)})
		}
		v.press("enter", 10)
		if v.filter.text != filter || len(v.shown()) != want {
			t.Errorf("%q: %d servers with %q, want %d", filter, len(v.shown()), v.filter.text, want)
		}
		v.press("esc", 10)
	}
}

// The filter is edited as a line of a shell is. Pasted text is a part of it, and harmless.
func TestTopEditsTheFilter(t *testing.T) {
	s := &Screen{view: view{order: "c"}, width: 20, height: 5}
	s.Update(tea.PasteMsg{Content: "nothing is typed"})
	s.Update(tea.KeyPressMsg{Code: '/', Text: "/"})
	for _, c := range []struct {
		what string
		msg  tea.Msg
		want string
	}{
		{"paste", tea.PasteMsg{Content: "my\x1bgit\u202e"}, "mygit?"},
		{"backspace", tea.KeyPressMsg{Code: tea.KeyBackspace}, "mygit"},
		{"blank", tea.KeyPressMsg{Code: tea.KeySpace, Text: " "}, "mygit "},
		{"letters", tea.KeyPressMsg{Code: 'é', Text: "e\u0301"}, "mygit e\u0301"},
		{"^W", tea.KeyPressMsg{Code: 'w', Mod: tea.ModCtrl}, "mygit "},
		{"q", tea.KeyPressMsg{Code: 'q', Text: "q"}, "mygit q"},
		{"left", tea.KeyPressMsg{Code: tea.KeyLeft}, "mygit q"},
		{"M-d at the last character", tea.KeyPressMsg{Code: 'd', Mod: tea.ModAlt}, "mygit q"},
		{"^V", tea.KeyPressMsg{Code: 'v', Mod: tea.ModCtrl}, "mygit q"},
		{"up", tea.KeyPressMsg{Code: tea.KeyUp}, "mygit q"},
		{"^U", tea.KeyPressMsg{Code: 'u', Mod: tea.ModCtrl}, "q"},
		{"home", tea.KeyPressMsg{Code: tea.KeyHome}, "q"},
		{"a long text", tea.PasteMsg{Content: strings.Repeat("x", 30) + "語"}, strings.Repeat("x", 30) + "語q"},
	} {
		if _, cmd := s.Update(c.msg); cmd != nil || s.view.filter.text != c.want {
			t.Errorf("%s: %q, want %q; a command: %v", c.what, s.view.filter.text, c.want, cmd != nil)
		}
		last := s.view.lines(s.width, s.height)[s.height-1]
		if !strings.HasPrefix(last, "/") || ansi.StringWidth(last) > s.width {
			t.Errorf("%s: %q", c.what, last)
		}
	}
	if last := ansi.Strip(s.view.lines(20, 5)[4]); !strings.HasSuffix(strings.TrimRight(last, " "), "x語") {
		t.Errorf("the cursor is not on the screen: %q", last)
	}
	s.Update(tea.KeyPressMsg{Code: tea.KeyEnter})
	if s.view.filter.isTyped() || len(s.view.filter.text) < 30 {
		t.Errorf("after Enter: %q", s.view.filter.text)
	}
	s.Update(tea.KeyPressMsg{Code: '/', Text: "/"})
	s.Update(tea.KeyPressMsg{Code: tea.KeyEscape})
	if s.view.filter.isTyped() || s.view.filter.text != "" {
		t.Errorf("after Escape: %q", s.view.filter.text)
	}
}

// End shows the last process, however few servers there are.
func TestTopEndOfDetails(t *testing.T) {
	r := reading{row: rowOf(render.Identity{ID: "k3x9w2ab", Name: "time"})}
	for i := range 50 {
		r.tree = append(r.tree, fleet.Member{PID: 1001 + i, Command: "node"})
	}
	v := view{readings: []reading{r}, order: "c"}
	v.press("enter", 10)
	v.lines(80, 10) // as Bubble Tea does after each key
	v.press("end", 10)
	if lines := strings.Join(v.lines(80, 10), "\n"); !strings.Contains(lines, "1050") || strings.Contains(lines, "1001") {
		t.Errorf("at the end:\n%s", lines)
	}
	v.press("home", 10)
	if lines := strings.Join(v.lines(80, 10), "\n"); !strings.Contains(lines, "1001") {
		t.Errorf("at the beginning:\n%s", lines)
	}
}

// Details fit any terminal, whatever a server is called, and end with their server.
func TestTopDetails(t *testing.T) {
	r := reading{row: rowOf(render.Identity{ID: "k3x9w2ab", Name: "time\x1b[2J", Client: render.Process{PID: 1, Name: "c"}})}
	r.row.Share = 0.5
	for i := range 50 {
		r.tree = append(r.tree, fleet.Member{PID: i + 1, Depth: i % 3, Command: "node \x1b[31m" + strings.Repeat("x", 300)})
	}
	v := view{readings: []reading{r}, order: "c"}
	v.press("enter", 10)
	for _, size := range [][2]int{{20, 4}, {200, 60}, {1, 1}} {
		lines := v.lines(size[0], size[1])
		for _, line := range lines {
			if ansi.StringWidth(line) > size[0] || strings.ContainsRune(line, '\x1b') || len(lines) != size[1] {
				t.Errorf("%v, %d lines: %q", size, len(lines), line)
			}
		}
	}
	if lines := v.lines(80, 24); !strings.Contains(lines[0], "time?[2J (k3x9w2ab)") {
		t.Errorf("%q", lines)
	}
	v.readings = nil
	if lines := v.lines(80, 24); v.details != "" || !strings.Contains(lines[23], "it has ended") {
		t.Errorf("%q", lines)
	}
}

// q and Escape go back, and only from the list does q quit.
func TestTopBack(t *testing.T) {
	v := view{readings: []reading{{row: rowOf(render.Identity{ID: "k3x9w2ab", Name: "time"})}}, order: "c"}
	for _, back := range []string{"q", "esc", "enter"} {
		v.press("enter", 10)
		if v.details == "" {
			t.Fatal("no details")
		}
		v.press("?", 10)
		if !v.help {
			t.Fatal("no keys in the details")
		}
		if _, quit := v.press(back, 10); quit || v.help || v.details == "" {
			t.Errorf("%s from the keys: quit %v, %+v", back, quit, v)
		}
		if _, quit := v.press(back, 10); quit || v.details != "" {
			t.Errorf("%s from the details: quit %v", back, quit)
		}
	}
	if _, quit := v.press("q", 10); !quit {
		t.Error("q does not quit")
	}
}

// The keys fit any terminal, and all of them can be reached.
func TestTopKeys(t *testing.T) {
	v := view{order: "c"}
	v.press("?", 10)
	for _, size := range [][2]int{{120, 40}, {50, 15}, {30, 6}, {1, 1}} {
		seen := ""
		v.press("home", 10)
		for range 60 {
			lines := v.lines(size[0], size[1])
			for _, line := range lines {
				if ansi.StringWidth(line) > size[0] || len(lines) != size[1] {
					t.Errorf("%v, %d lines: %q", size, len(lines), line)
				}
			}
			seen += strings.Join(lines, "\n") + "\n"
			v.press("down", 10)
		}
		if size[0] < 30 {
			continue
		}
		for _, want := range []string{"^Z, ^C", "PgUp PgDn", "Idle servers", "off."} {
			if !strings.Contains(seen, want) {
				t.Errorf("%v: no %q in\n%s", size, want, seen)
			}
		}
	}
	if v.press("s", 10); v.asked.verb != "" || !v.help {
		t.Error("s acts on a server that the keys hide")
	}
	if v.press("?", 10); v.help {
		t.Error("? does not go back")
	}
}

// A color shows the state of a server or its limits. With NO_COLOR there is no color.
func TestTopColors(t *testing.T) {
	const yellow, blue, cyan, none = "\x1b[33m", "\x1b[34m", "\x1b[36m", ""
	memory := uint64(81)
	for _, c := range []struct {
		what  string
		state fleet.State
		files map[string]string
		share float64
		want  string
	}{
		{"running", fleet.Running, nil, 9, none},
		{"idle", fleet.Idle, nil, 0, cyan},
		{"frozen", fleet.Frozen, nil, 0, blue},
		{"memory", fleet.Running, map[string]string{"memory.max": "100"}, 0, yellow},
		{"less memory", fleet.Running, map[string]string{"memory.max": "102"}, 0, none},
		{"no limit", fleet.Idle, map[string]string{"memory.max": "max", "cpu.max": "max 100000", "pids.max": "max"}, 9, cyan},
		{"processes", fleet.Frozen, map[string]string{"pids.max": "11"}, 0, yellow},
		{"fewer processes", fleet.Frozen, map[string]string{"pids.max": "12"}, 0, blue},
		{"cpu", fleet.Running, map[string]string{"cpu.max": "50000 100000"}, 0.41, yellow},
		{"less cpu", fleet.Running, map[string]string{"cpu.max": "50000 100000"}, 0.39, none},
	} {
		r := reading{row: rowOf(render.Identity{ID: "k3x9w2ab", Name: "time", State: c.state})}
		r.row.Server.Memory = &memory
		r.row.Server.Processes = 9
		r.row.Server.Limits = c.files
		r.row.Share = c.share
		if got := colorOf(&r.row); got != c.want {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
		v := view{readings: []reading{r}, order: "c", style: style{colors: true}}
		if line := v.lines(80, 5)[2]; !strings.HasPrefix(line, c.want+"\x1b[7m") {
			t.Errorf("%s, under the cursor: %q", c.what, line)
		}
		v.style.colors = false
		if line := v.lines(80, 5)[2]; !strings.HasPrefix(line, "\x1b[7m") {
			t.Errorf("%s, without colors: %q", c.what, line)
		}
	}
}

// top stays in the terminal if nothing could continue it.
func TestTopSuspend(t *testing.T) {
	s := &Screen{}
	cmd := s.press("ctrl+z")
	if hasShell() {
		if _, suspends := cmd().(tea.SuspendMsg); !suspends {
			t.Error("^Z does not suspend")
		}
	} else if cmd != nil || !strings.Contains(s.view.note, "no shell") {
		t.Errorf("%v, %q", cmd, s.view.note)
	}
	if _, cmd := s.Update(tea.ResumeMsg{}); cmd == nil {
		t.Error("nothing is measured again")
	}
}

// One server is in the singular, in the summary and in the details.
func TestTopOfOne(t *testing.T) {
	row := rowOf(render.Identity{ID: "k3x9w2ab", Name: "time"})
	row.Server.Processes = 1
	v := view{readings: []reading{{row: row}}, order: "n"}
	if got := v.summary(1, 120); !strings.HasPrefix(got, "1 server, 1 process, ") {
		t.Errorf("summary: %q", got)
	}
	v.readings = append(v.readings, reading{row: row})
	if got := v.summary(2, 120); !strings.HasPrefix(got, "2 servers, 2 processes, ") {
		t.Errorf("summary: %q", got)
	}
	if got := v.readings[0].details(80)[1]; !strings.HasSuffix(got, ", 1 process") {
		t.Errorf("details: %q", got)
	}
}

// A narrow terminal keeps the memory, whose sum people look for.
func TestTopSummaryFits(t *testing.T) {
	row := rowOf(render.Identity{ID: "k3x9w2ab", Name: "time"})
	row.Server.Processes = 12
	v := view{readings: []reading{{row: row}, {row: row}}, order: "m"}
	for width, want := range map[int]string{
		80: "2 servers, 24 processes, CPU 0.0%, memory 0B, by memory",
		50: "2 servers, CPU 0.0%, memory 0B, by memory",
		40: "2 servers, CPU 0.0%, memory 0B",
	} {
		if got := v.summary(2, width); got != want {
			t.Errorf("%d columns: %q, want %q", width, got, want)
		}
	}
}

// A narrow terminal has whole keys in its last line, and those that lead to the others.
func TestTopLastLineFits(t *testing.T) {
	list := view{order: "c", readings: []reading{{row: rowOf(render.Identity{ID: "k3x9w2ab", Name: "time"})}}}
	details := list
	details.press("enter", 10)
	for _, c := range []struct {
		view  view
		width int
		want  string
	}{
		{list, 80, "q quit  ? keys  Enter details  s stop  f freeze/thaw  / filter  sort: c m a n p"},
		{list, 78, "q quit  ? keys  Enter details  s stop  f freeze/thaw  / filter"},
		{list, 50, "q quit  ? keys  Enter details  s stop"},
		{list, 20, "q quit  ? keys"},
		{list, 12, "q quit  ? k…"},
		{details, 45, "q back  ? keys  s stop  f freeze/thaw  ↑↓"},
		{details, 40, "q back  ? keys  s stop  f freeze/thaw"},
		{details, 14, "q back  ? keys"},
	} {
		lines := c.view.lines(c.width, 10)
		if got := lines[len(lines)-1]; got != c.want {
			t.Errorf("%d columns: %q, want %q", c.width, got, c.want)
		}
	}
}
