// SPDX-License-Identifier: Apache-2.0

// Package top shows the servers that run on a terminal, until a key or a signal ends it.
//
// A view reads and draws nothing; the model measures servers beside it, and never in the way of a key.
package top

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/render"
	"github.com/mcpscope/mcpscope/internal/server/fleet"
)

// nameMost is how many cells a name has in the last line.
const nameMost = 32

// farAway is more lines than there are.
const farAway = 1 << 20

// view is the content of the screen.
type view struct {
	readings []reading // the oldest first
	users    bool
	stop     func(*fleet.Listed) error
	order    string // the key of an order
	typing   bool   // the filter
	filter   string
	cursor   string // the server under the cursor: see key
	row      int    // of the cursor
	firstRow int    // on the screen
	asked    string // the server whose stop needs confirmation
	note     string // the result of the last key, or an error
	details  string // the server whose details are shown
	scroll   int    // the first line of the details
}

// orders are those that keys stand for, each the largest first but names.
var orders = map[string]func(a, b render.Row) int{
	"c": func(a, b render.Row) int {
		return cmp.Or(cmp.Compare(b.Share, a.Share), cmp.Compare(b.CPU, a.CPU))
	},
	"m": func(a, b render.Row) int { return cmp.Compare(memoryBytes(b), memoryBytes(a)) },
	"a": func(a, b render.Row) int { return cmp.Compare(b.Age, a.Age) },
	"n": func(a, b render.Row) int { return cmp.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name)) },
	"p": func(a, b render.Row) int { return cmp.Compare(b.Processes, a.Processes) },
}

var orderNames = map[string]string{"c": "CPU", "m": "memory", "a": "age", "n": "name", "p": "processes"}

// shown are those that the filter lets through, in order.
func (v *view) shown() (rows []render.Row) {
	for _, r := range v.readings {
		if r.contains(v.filter) {
			rows = append(rows, r.Row)
		}
	}
	slices.SortStableFunc(rows, func(a, b render.Row) int {
		return cmp.Or(orders[v.order](a, b), strings.Compare(a.ID, b.ID))
	})
	return rows
}

// selected returns the row of the cursor. If its server has ended, the cursor stays in the same row.
func (v *view) selected(rows []render.Row) int {
	row := slices.IndexFunc(rows, func(r render.Row) bool { return key(r) == v.cursor })
	if row >= 0 {
		v.row = row
	}
	return max(min(v.row, len(rows)-1), 0)
}

// find returns nil for a server that has ended.
func (v *view) find(server string) *reading {
	i := slices.IndexFunc(v.readings, func(r reading) bool { return key(r.Row) == server })
	if i < 0 {
		return nil
	}
	return &v.readings[i]
}

// current is the server that is chosen, or nil.
func (v *view) current() *reading {
	if v.details != "" {
		return v.find(v.details)
	}
	rows := v.shown()
	if len(rows) == 0 {
		return nil
	}
	return v.find(key(rows[v.selected(rows)]))
}

// press handles a key, and returns an action on a server. quit ends top.
func (v *view) press(pressed string, page int) (w *wish, quit bool) {
	v.note = ""
	switch {
	case pressed == "ctrl+c":
		return nil, true
	case v.typing:
		v.pressTyping(pressed)
		return nil, false
	case v.asked != "":
		return v.pressAnswer(pressed), false
	case pressed == "q":
		return nil, true
	case orders[pressed] != nil:
		v.order = pressed
		return nil, false
	case v.details != "":
		return v.pressInDetails(pressed, page), false
	}
	return v.pressInList(pressed, page), false
}

// pressTyping takes a key for the filter.
func (v *view) pressTyping(pressed string) {
	switch {
	case pressed == "enter":
		v.typing = false
	case pressed == "esc":
		v.typing = false
		v.filter = ""
	case pressed == "backspace":
		_, n := utf8.DecodeLastRuneInString(v.filter)
		v.filter = v.filter[:len(v.filter)-n]
	case pressed == "space": // the name of this key
		v.filter += " "
	case utf8.RuneCountInString(pressed) == 1: // otherwise it has a name
		v.filter += pressed
	}
}

// pressAnswer answers the question whether to stop a server, which may have ended meanwhile.
func (v *view) pressAnswer(pressed string) *wish {
	r := v.find(v.asked)
	v.asked = ""
	if pressed != "y" || r == nil {
		v.note = "not stopped"
		return nil
	}
	return &wish{verb: "stop", past: "stopped", do: v.stop, target: r}
}

func (v *view) pressInDetails(pressed string, page int) *wish {
	if by, ok := rowsOf(pressed, page); ok {
		v.scroll = max(v.scroll+by, 0)
		return nil
	}
	if pressed == "esc" || pressed == "enter" {
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
	switch pressed {
	case "/":
		v.typing = true
		return nil
	case "esc":
		v.filter = ""
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
		return
	}
	v.cursor = key(r.Row)
	v.details = key(r.Row)
	v.scroll = 0
}

// pressOnServer acts on the chosen server, or asks before.
func (v *view) pressOnServer(pressed string) *wish {
	r := v.current()
	switch {
	case r == nil:
		return nil
	case pressed == "s":
		v.cursor = key(r.Row)
		v.asked = key(r.Row)
		return nil
	case pressed == "f" && r.State == fleet.Frozen:
		return &wish{verb: "thaw", past: "thawed", do: withoutChange((*fleet.Listed).Thaw), target: r}
	case pressed == "f":
		return &wish{verb: "freeze", past: "frozen", do: withoutChange((*fleet.Listed).Freeze), target: r}
	}
	return nil
}

// lines returns the content of a terminal of that size; if it is very low, the last lines.
func (v *view) lines(width, height int) []string {
	const lastLine = 1
	above := max(height-lastLine, 2) // at least the summary and the heads
	r := v.find(v.details)
	if r == nil && v.details != "" {
		v.details = ""
		v.note = "it has ended"
	}
	var lines []string
	if r != nil {
		lines = v.detailLines(r, width, above)
	} else {
		lines = v.listLines(width, above)
	}
	for len(lines) < height-lastLine {
		lines = append(lines, "")
	}
	lines = append(lines, render.Fit(cli.OneLine(v.lastLine()), width))
	return lines[max(len(lines)-height, 0):]
}

// detailLines returns at most that many lines.
func (v *view) detailLines(r *reading, width, most int) []string {
	lines := r.details(width)
	v.scroll = max(min(v.scroll, len(lines)-most), 0)
	return lines[v.scroll:min(v.scroll+most, len(lines))]
}

// listLines returns a summary, the heads and the rows around the cursor, at most that many lines.
func (v *view) listLines(width, most int) []string {
	const bold, reversed, normal = "\x1b[1m", "\x1b[7m", "\x1b[m"
	rows := v.shown()
	row := v.selected(rows)
	table := render.Watched(rows, width, v.users)
	lines := []string{render.Fit(v.summary(len(rows)), width), bold + table[0] + normal}
	room := most - len(lines)
	v.firstRow = max(min(v.firstRow, row, len(rows)-room), row-room+1, 0)
	for i := v.firstRow; i < min(v.firstRow+room, len(rows)); i++ {
		line := table[1+i]
		if i == row {
			line = reversed + render.Padded(line, width) + normal
		}
		lines = append(lines, line)
	}
	return lines
}

// summary is about all servers, not only those that are shown.
func (v *view) summary(shown int) string {
	var processes int
	var share float64
	var memory uint64
	for _, r := range v.readings {
		processes += r.Processes
		share += max(r.Share, 0)
		memory += memoryBytes(r.Row)
	}
	text := fmt.Sprintf("%d servers, %d processes, CPU %.1f%%, memory %s, by %s",
		len(v.readings), processes, 100*share, render.HumanBytes(memory), orderNames[v.order])
	if v.filter != "" {
		text += fmt.Sprintf(", %d with %q", shown, v.filter)
	}
	return cli.OneLine(text)
}

func (v *view) lastLine() string {
	if v.typing {
		return "/" + v.filter + "_"
	}
	asked := v.find(v.asked)
	if asked != nil {
		name := render.Fit(asked.Name, nameMost)
		return fmt.Sprintf("Stop %s (%s)? y: yes, any other key: no", name, asked.ID)
	}
	if v.note != "" {
		return v.note
	}
	if v.details != "" {
		return "q quit  Escape back  s stop  f freeze/thaw  ↑↓"
	}
	return "q quit  Enter details  s stop  f freeze/thaw  / filter  sort: c m a n p"
}

// withoutChange returns an act that does not report whether anything has changed: the next refresh shows it.
func withoutChange(act func(*fleet.Listed) (bool, error)) func(*fleet.Listed) error {
	return func(s *fleet.Listed) error {
		_, err := act(s)
		return err
	}
}
