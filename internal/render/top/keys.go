// SPDX-License-Identifier: Apache-2.0

package top

import (
	"fmt"
	"strings"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/render"
	"github.com/mcpscope/mcpscope/internal/server/fleet"
)

// Keys are the keys of the screen and their meaning, for the help of the command and for the key "?".
func Keys() [][2]string {
	return [][2]string{
		{"↑ ↓ k j", "select a server"},
		{"PgUp PgDn Home End", "the same, by a page or to the end"},
		{"Enter", "show details and processes"},
		{"c m a n p", "sort by CPU, memory, age, name or processes"},
		{"/", "filter by id, name, client, project, state or backend"},
		{"f, then y", "freeze the selected server; f thaws it"},
		{"s, then y", "stop the selected server, as mcpscope stop does"},
		{"?", "show the keys"},
		{"Escape", "go back from details and keys, or remove the filter"},
		{"q", "go back from details and keys, or quit"},
		{"^Z, ^C", "suspend top; quit"},
	}
}

// KeyColumn is the width of the keys in both.
const KeyColumn = 20

// Colors are the meaning of the colors.
const Colors = "Idle servers are cyan, frozen ones blue, and those above 80 % of a limit of " +
	"memory, CPU or processes are yellow. NO_COLOR switches colors off."

// helpLines are Keys and Colors, for a terminal of that width.
func helpLines(width int) []string {
	room := max(width-KeyColumn, KeyColumn)
	var lines []string
	for _, k := range Keys() {
		left := k[0]
		for _, text := range cli.Wrap(k[1], room) {
			lines = append(lines, render.Fit(render.Padded(left, KeyColumn)+text, width))
			left = ""
		}
	}
	lines = append(lines, "")
	for _, text := range cli.Wrap(Colors, max(width, KeyColumn)) {
		lines = append(lines, render.Fit(strings.TrimRight(text, " "), width))
	}
	return lines
}

// press handles a key, and returns an action on a server. quit ends top.
func (v *view) press(pressed string, page int) (w *wish, quit bool) {
	v.note = ""
	switch {
	case pressed == "ctrl+c":
		return nil, true
	case v.filter.isTyped():
		v.filter.press(pressed)
		return nil, false
	case v.asked.verb != "":
		return v.pressAnswer(pressed), false
	case v.help:
		v.pressInHelp(pressed, page)
		return nil, false
	case pressed == "?":
		v.help = true
		v.pager.GotoTop()
		return nil, false
	case v.details != "":
		return v.pressInDetails(pressed, page), false
	case pressed == "q":
		return nil, true
	}
	return v.pressInList(pressed, page), false
}

// isBack reports whether a key leaves the details and the keys.
func isBack(pressed string) bool { return pressed == "q" || pressed == "esc" || pressed == "enter" }

func (v *view) pressInHelp(pressed string, page int) {
	if isBack(pressed) || pressed == "?" {
		v.help = false
		v.pager.GotoTop()
		return
	}
	v.scrollBy(pressed, page)
}

// scrollBy returns false for a key that does not scroll.
func (v *view) scrollBy(pressed string, page int) bool {
	by, ok := rowsOf(pressed, page)
	if ok {
		v.pager.SetYOffset(v.pager.YOffset() + by)
	}
	return ok
}

// pressAnswer answers the question about a server, which may have ended meanwhile.
func (v *view) pressAnswer(pressed string) *wish {
	asked := v.asked
	v.asked = question{}
	r := v.find(asked.server)
	if pressed != "y" || r == nil {
		v.note = "not " + asked.past
		return nil
	}
	return &wish{verb: asked.verb, past: asked.past, do: asked.do, target: r}
}

func (v *view) pressInDetails(pressed string, page int) *wish {
	if v.scrollBy(pressed, page) {
		return nil
	}
	if isBack(pressed) {
		v.details = ""
		return nil
	}
	return v.pressOnServer(pressed)
}

func (v *view) pressInList(pressed string, page int) *wish {
	if by, ok := rowsOf(pressed, page); ok {
		v.moveCursor(by)
		return nil
	}
	if orders[pressed] != nil {
		v.order = pressed
		return nil
	}
	switch pressed {
	case "/":
		v.filter.edit()
		return nil
	case "esc":
		v.filter.text = ""
		return nil
	case "enter":
		v.openDetails()
		return nil
	}
	return v.pressOnServer(pressed)
}

// rowsOf returns by how many rows a key moves, and false for any other key.
func rowsOf(pressed string, page int) (by int, ok bool) {
	switch pressed {
	case "up", "k":
		return -1, true
	case "down", "j":
		return 1, true
	case "pgup":
		return -page, true
	case "pgdown":
		return page, true
	case "home":
		return -farAway, true
	case "end":
		return farAway, true
	}
	return 0, false
}

func (v *view) moveCursor(by int) {
	rows := v.shown()
	if len(rows) == 0 {
		return
	}
	row := min(max(v.selected(rows)+by, 0), len(rows)-1)
	v.cursor = key(rows[row])
}

func (v *view) openDetails() {
	r := v.current()
	if r == nil {
		v.note = sessionNote(v)
		return
	}
	v.cursor = key(r.row)
	v.details = key(r.row)
	v.pager.GotoTop()
}

// pressOnServer acts on the chosen server, or asks before.
func (v *view) pressOnServer(pressed string) *wish {
	r := v.current()
	switch {
	case r == nil && (pressed == "f" || pressed == "s"):
		v.note = sessionNote(v)
		return nil
	case r == nil:
		return nil
	case pressed == "f" && r.row.Server.State == fleet.Frozen:
		return &wish{verb: "thaw", past: "thawed", do: withoutChange((*fleet.Listed).Thaw), target: r}
	case pressed == "f":
		v.ask(question{key(r.row), "freeze", "frozen", withoutChange((*fleet.Listed).Freeze)})
	case pressed == "s":
		v.ask(question{key(r.row), "stop", "stopped", v.stop})
	}
	return nil
}

// sessionNote is "" unless the cursor is on the line of a session.
func sessionNote(v *view) string {
	rows := v.shown()
	if len(rows) == 0 {
		return ""
	}
	row := rows[v.selected(rows)]
	if !row.IsSession {
		return ""
	}
	return fmt.Sprintf("a session: mcpscope inspect %[1]s, freeze %[1]s, stop %[1]s", row.Server.ID)
}

// ask keeps the cursor on the server that the question is about.
func (v *view) ask(q question) {
	v.cursor = q.server
	v.asked = q
}
