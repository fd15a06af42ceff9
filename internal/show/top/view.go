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
	"github.com/mcpscope/mcpscope/internal/server/fleet"
	"github.com/mcpscope/mcpscope/internal/show"
)

// view is the content of the screen.
type view struct {
	all     []reading // the oldest first
	users   bool
	order   string // the key of an order
	typing  bool   // the filter
	filter  string
	cursor  string // of which server: see key
	at      int    // and in which row
	top     int    // the first row on the screen
	asked   string // the server whose stop needs confirmation
	note    string // the result of the last key, or an error
	details string // of which server, if they are shown
	scroll  int    // the first line of these
}

// orders are those that keys stand for, each the largest first but names.
var orders = map[string]func(a, b show.Row) int{
	"c": func(a, b show.Row) int { return cmp.Or(cmp.Compare(b.Share, a.Share), cmp.Compare(b.CPU, a.CPU)) },
	"m": func(a, b show.Row) int { return cmp.Compare(bytes(b), bytes(a)) },
	"a": func(a, b show.Row) int { return cmp.Compare(b.Age, a.Age) },
	"n": func(a, b show.Row) int { return cmp.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name)) },
	"p": func(a, b show.Row) int { return cmp.Compare(b.Processes, a.Processes) },
}

var orderNames = map[string]string{"c": "CPU", "m": "memory", "a": "age", "n": "name", "p": "processes"}

// shown are those that the filter lets through, in order.
func (v *view) shown() (rows []show.Row) {
	for _, r := range v.all {
		text := strings.Join([]string{r.ID, r.Name, r.Client.Name, string(r.State), string(r.Backend)}, "\n")
		if strings.Contains(strings.ToLower(text), strings.ToLower(v.filter)) {
			rows = append(rows, r.Row)
		}
	}
	slices.SortStableFunc(rows, func(a, b show.Row) int {
		return cmp.Or(orders[v.order](a, b), strings.Compare(a.ID, b.ID))
	})
	return rows
}

// selected returns the row of the cursor. If its server has ended, the cursor stays in the same row.
func (v *view) selected(rows []show.Row) int {
	if i := slices.IndexFunc(rows, func(r show.Row) bool { return key(r) == v.cursor }); i >= 0 {
		v.at = i
	}
	return max(min(v.at, len(rows)-1), 0)
}

// find returns nil for a server that has ended.
func (v *view) find(server string) *reading {
	if i := slices.IndexFunc(v.all, func(r reading) bool { return key(r.Row) == server }); i >= 0 {
		return &v.all[i]
	}
	return nil
}

// current is the server that is chosen, or nil.
func (v *view) current() *reading {
	if v.details != "" {
		return v.find(v.details)
	}
	if rows := v.shown(); len(rows) > 0 {
		return v.find(key(rows[v.selected(rows)]))
	}
	return nil
}

// press handles a key, and returns an action on a server. quit ends top.
func (v *view) press(pressed string, page int) (w *wish, quit bool) {
	v.note = ""
	by, moves := map[string]int{
		"up": -1, "k": -1, "down": 1, "j": 1, "pgup": -page, "pgdown": page,
		"home": -len(v.all), "end": len(v.all),
	}[pressed]
	r := v.current()
	switch {
	case pressed == "ctrl+c":
		return nil, true
	case v.typing:
		v.typed(pressed)
	case v.asked != "":
		if r = v.find(v.asked); pressed == "y" && r != nil {
			w = &wish{"stop", "stopped", stop, r}
		} else {
			v.note = "not stopped"
		}
		v.asked = ""
	case v.details != "" && (pressed == "esc" || pressed == "enter"):
		v.details = ""
	case moves && v.details != "":
		v.scroll = max(v.scroll+by, 0)
	case moves:
		if rows := v.shown(); len(rows) > 0 {
			v.cursor = key(rows[min(max(v.selected(rows)+by, 0), len(rows)-1)])
		}
	case orders[pressed] != nil:
		v.order = pressed
	case pressed == "q":
		return nil, true
	case pressed == "/" && v.details == "":
		v.typing = true
	case pressed == "esc":
		v.filter = ""
	case r == nil:
	case pressed == "enter":
		v.cursor, v.details, v.scroll = key(r.Row), key(r.Row), 0
	case pressed == "s":
		v.cursor, v.asked = key(r.Row), key(r.Row)
	case pressed == "f" && r.State == fleet.Frozen:
		w = &wish{"thaw", "thawed", (*fleet.Listed).Thaw, r}
	case pressed == "f":
		w = &wish{"freeze", "frozen", (*fleet.Listed).Freeze, r}
	}
	return w, false
}

// typed takes a key for the filter.
func (v *view) typed(key string) {
	switch {
	case key == "enter":
		v.typing = false
	case key == "esc":
		v.typing, v.filter = false, ""
	case key == "backspace":
		_, n := utf8.DecodeLastRuneInString(v.filter)
		v.filter = v.filter[:len(v.filter)-n]
	case utf8.RuneCountInString(key) == 1: // otherwise it has a name
		v.filter += key
	}
}

// lines returns the content of a terminal of that size; if it is very low, the last lines.
func (v *view) lines(width, height int) []string {
	const bold, reversed, normal = "\x1b[1m", "\x1b[7m", "\x1b[m"
	var lines []string
	room := max(height-3, 0) // beside the summary, the heads and the last line
	if r := v.find(v.details); r != nil {
		lines = r.details(width)
		v.scroll = max(min(v.scroll, len(lines)-room-2), 0)
		lines = lines[v.scroll:min(v.scroll+room+2, len(lines))]
	} else {
		if v.details != "" {
			v.details, v.note = "", "it has ended"
		}
		rows := v.shown()
		at := v.selected(rows)
		v.top = max(min(v.top, at, len(rows)-room), at-room+1, 0)
		table := show.Watched(rows, width, v.users)
		lines = []string{show.Fit(v.summary(len(rows)), width), bold + table[0] + normal}
		for i := v.top; i < min(v.top+room, len(rows)); i++ {
			line := table[1+i]
			if i == at {
				line = reversed + show.Padded(line, width) + normal
			}
			lines = append(lines, line)
		}
	}
	for len(lines) < height-1 {
		lines = append(lines, "")
	}
	lines = append(lines, show.Fit(cli.OneLine(v.lastLine()), width))
	return lines[max(len(lines)-height, 0):]
}

// summary is about all servers, not only those that are shown.
func (v *view) summary(shown int) string {
	processes, share, memory := 0, 0.0, uint64(0)
	for _, r := range v.all {
		processes, share, memory = processes+r.Processes, share+max(r.Share, 0), memory+bytes(r.Row)
	}
	text := fmt.Sprintf("%d servers, %d processes, CPU %.1f%%, memory %s, by %s",
		len(v.all), processes, 100*share, show.HumanBytes(memory), orderNames[v.order])
	if v.filter != "" {
		text += fmt.Sprintf(", %d with %q", shown, v.filter)
	}
	return cli.OneLine(text)
}

func (v *view) lastLine() string {
	switch r := v.find(v.asked); {
	case v.typing:
		return "/" + v.filter + "_"
	case r != nil:
		return fmt.Sprintf("Stop %s (%s)? y: yes, any other key: no", show.Fit(r.Name, 32), r.ID)
	case v.note != "":
		return v.note
	case v.details != "":
		return "q quit  Escape back  s stop  f freeze/thaw  ↑↓"
	}
	return "q quit  Enter details  s stop  f freeze/thaw  / filter  sort: c m a n p"
}
