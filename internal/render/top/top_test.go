// SPDX-License-Identifier: Apache-2.0

package top

import (
	"strings"
	"testing"

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
		v.readings = append(v.readings, reading{Row: rowOf(render.Identity{ID: name, Name: name})})
	}
	v.press("down", 10)
	v.press("s", 10)
	if v.press("x", 10); v.asked != "" { // no y
		t.Error("the question stays")
	}
	v.press("s", 10)
	all := v.readings
	v.readings = []reading{all[0], all[2]} // b has ended
	if w, _ := v.press("y", 10); w != nil {
		t.Errorf("asked about b, it would %s %s", w.verb, w.target.Name)
	}
	v.readings = all
	v.press("s", 10)
	v.press("x", 10)
	v.press("s", 10)
	if w, _ := v.press("y", 10); w == nil || w.target.Name != "b" || w.verb != "stop" {
		t.Errorf("%+v, want b", w)
	}
	for height := 1; height < 8; height++ {
		if lines := v.lines(30, height); len(lines) != height {
			t.Errorf("%d lines of %d", len(lines), height)
		}
	}
}

// The filter searches all texts that the help names, and takes blanks.
func TestTopFilter(t *testing.T) {
	git := render.Identity{
		ID: "k3x9w2ab", Name: "my Git", Client: render.Process{PID: 1, Name: "hermes"}, State: fleet.Frozen,
		Backend: names.Tree, Origin: protocol.Origin{Project: "shop"},
	}
	v := view{readings: []reading{{Row: rowOf(git)}}, order: "c"}
	for filter, want := range map[string]int{"k3x9": 1, "Y g": 1, "hermes": 1, "shop": 1, "frozen": 1, "tree": 1, "x y": 0} {
		v.press("/", 10)
		for _, r := range filter {
			v.press(strings.Replace(string(r), " ", "space", 1), 10)
		}
		v.press("enter", 10)
		if v.filter != filter || len(v.shown()) != want {
			t.Errorf("%q: %d servers with %q, want %d", filter, len(v.shown()), v.filter, want)
		}
		v.press("esc", 10)
	}
}

// End shows the last process, however few servers there are.
func TestTopEndOfDetails(t *testing.T) {
	r := reading{Row: rowOf(render.Identity{ID: "k3x9w2ab", Name: "time"})}
	for i := range 50 {
		r.tree = append(r.tree, fleet.Member{PID: 1001 + i, Command: "node"})
	}
	v := view{readings: []reading{r}, order: "c"}
	v.press("enter", 10)
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
	r := reading{Row: rowOf(render.Identity{ID: "k3x9w2ab", Name: "time\x1b[2J", Client: render.Process{PID: 1, Name: "c"}})}
	r.Share = 0.5
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
