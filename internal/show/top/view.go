// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package top shows the servers that run on a terminal, until a key or a signal ends it.
//
// A view reads and draws nothing; the model measures servers beside it, and never in the way of a key.
package top

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/selection"
	"github.com/mcpscope/mcpscope/internal/server/fleet"
	"github.com/mcpscope/mcpscope/internal/show"
)

// topView is what top shows, and what its keys have made of it. It reads and draws nothing.
type topView struct {
	all     []reading // the oldest first
	users   bool
	order   rune // the key of an order
	reverse bool
	typing  bool // the filter
	filter  string
	cursor  string // of which server: see reading.who
	at      int    // and in which row
	top     int    // the first row on the screen
	asked   string // which server is to be stopped, if that is confirmed
	note    string // what came of the last key, or went wrong
	help    bool
	details string // of which server, if they are shown
	scroll  int    // the first line of these
}

// order is what can be sorted by.
type order struct {
	name    string
	compare func(a, b reading) int
}

// orders are those that keys stand for, each the largest first but names.
var orders = map[rune]*order{
	'c': {"CPU", func(a, b reading) int { return cmp.Or(cmp.Compare(b.Cpu, a.Cpu), cmp.Compare(b.CPU, a.CPU)) }},
	'm': {"memory", func(a, b reading) int { return cmp.Compare(orZero(b.Memory), orZero(a.Memory)) }},
	'a': {"age", func(a, b reading) int { return cmp.Compare(b.Age, a.Age) }},
	'n': {"name", func(a, b reading) int { return cmp.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name)) }},
	'p': {"processes", func(a, b reading) int { return cmp.Compare(b.Processes, a.Processes) }},
}

func orZero(n *uint64) uint64 {
	if n == nil {
		return 0
	}
	return *n
}

// shown are those that the filter lets through, in order.
func (v *topView) shown() []reading {
	var rows []reading
	want := strings.ToLower(v.filter)
	for _, r := range v.all {
		text := strings.ToLower(strings.Join([]string{r.ID, r.Name, r.Client.Name, string(r.State), string(r.Backend)}, "\n"))
		if strings.Contains(text, want) {
			rows = append(rows, r)
		}
	}
	by := orders[v.order]
	slices.SortStableFunc(rows, func(a, b reading) int {
		if v.reverse {
			a, b = b, a
		}
		return cmp.Or(by.compare(a, b), strings.Compare(a.ID, b.ID))
	})
	return rows
}

// selected is where the cursor is in rows. Where its server has gone, it stays on its row.
func (v *topView) selected(rows []reading) int {
	if i := slices.IndexFunc(rows, func(r reading) bool { return r.who() == v.cursor }); i >= 0 {
		v.at = i
	}
	return max(min(v.at, len(rows)-1), 0)
}

// move puts the cursor so many rows further down.
func (v *topView) move(by int) {
	if rows := v.shown(); len(rows) > 0 {
		v.cursor = rows[min(max(v.selected(rows)+by, 0), len(rows)-1)].who()
	}
}

// find is the server of that name for itself, or nil.
func (v *topView) find(who string) *reading {
	for i := range v.all {
		if v.all[i].who() == who {
			return &v.all[i]
		}
	}
	return nil
}

// current is the server that is chosen, or nil.
func (v *topView) current() *reading {
	if v.details != "" {
		return v.find(v.details)
	}
	rows := v.shown()
	if len(rows) == 0 {
		return nil
	}
	return v.find(rows[v.selected(rows)].who())
}

// frame is what is on the screen: a line of heads, one that is marked.
type frame struct {
	lines         []string
	heads, marked int // -1 for none
	width         int
}

// String has the lines with what makes them bold or reversed.
func (f frame) String() string {
	const bold, reversed, normal = "\x1b[1m", "\x1b[7m", "\x1b[m"
	lines := slices.Clone(f.lines)
	for i, line := range lines {
		switch i {
		case f.heads:
			lines[i] = bold + line + normal
		case f.marked:
			lines[i] = reversed + show.Padded(line, f.width) + normal
		}
	}
	return strings.Join(lines, "\n")
}

// frame is what a terminal of that size shows. Of a very low one the last lines are left.
func (v *topView) frame(width, height int) frame {
	switch {
	case v.help:
		return v.filled(v.keys(width), width, height)
	case v.details != "":
		if r := v.find(v.details); r != nil {
			return v.filled(r.detailLines(), width, height)
		}
		v.details, v.note = "", "it has ended"
	}
	rows := v.shown()
	at := v.selected(rows)
	room := max(height-3, 0) // beside the summary, the heads, the last line
	v.top = max(min(v.top, at, len(rows)-room), at-room+1, 0)
	heads := show.Columns()
	if !v.users {
		heads = show.Without(heads, "UID")
	}
	shown := make([]show.Row, len(rows))
	for i, r := range rows {
		shown[i] = r.Row
	}
	all := show.Table(heads, shown, width)
	last := min(1+v.top+room, len(all))
	f := frame{lines: append([]string{show.Fit(v.summary(len(rows)), width), all[0]}, all[min(1+v.top, last):last]...), heads: 1, marked: -1, width: width}
	if len(rows) > 0 {
		f.marked = 2 + at - v.top
	}
	for len(f.lines) < height-1 {
		f.lines = append(f.lines, "")
	}
	f.lines = append(f.lines, show.Fit(v.lastLine(), width))
	over := max(len(f.lines)-height, 0)
	f.lines, f.heads, f.marked = f.lines[over:], f.heads-over, f.marked-over
	if f.marked == len(f.lines)-1 {
		f.marked = -1 // there is no room for a row
	}
	return f
}

// filled is a page of lines that can be scrolled, with the last line below.
func (v *topView) filled(lines []string, width, height int) frame {
	room := max(height-1, 0)
	v.scroll = max(min(v.scroll, len(lines)-room), 0)
	if v.help {
		v.scroll = 0
	}
	lines = slices.Clone(lines[v.scroll:min(v.scroll+room, len(lines))])
	for i := range lines {
		lines[i] = show.Fit(lines[i], width)
	}
	for len(lines) < room {
		lines = append(lines, "")
	}
	return frame{lines: append(lines, show.Fit(v.lastLine(), width)), heads: -1, marked: -1, width: width}
}

// summary is about all servers, not only those that are shown.
func (v *topView) summary(shown int) string {
	var processes int
	var cpu float64
	var memory *uint64
	mark := ""
	for _, r := range v.all {
		processes, cpu = processes+r.Processes, cpu+max(r.Cpu, 0)
		if r.Memory != nil {
			memory = new(orZero(memory) + *r.Memory)
		}
		if r.MemoryFrom == show.FromMembers {
			mark = "~"
		}
	}
	text := fmt.Sprintf("%d servers, %d processes, CPU %.1f%%, memory %s, by %s", len(v.all), processes, 100*cpu, mark+show.HumanMemory(memory), orders[v.order].name)
	if v.reverse {
		text += " reversed"
	}
	if v.filter != "" {
		text += fmt.Sprintf(", %d with %q", shown, v.filter)
	}
	return cli.OneLine(text)
}

const (
	listHelp   = "? help  q quit  Enter details  s stop  f freeze/thaw  / filter  sort: c m a n p  r reverse"
	detailHelp = "Escape back  ? help  q quit  s stop  f freeze/thaw  ↑↓"
)

// keys explains the keys, wrapped where the terminal is narrow.
func (v *topView) keys(width int) []string {
	var lines []string
	for _, line := range []string{
		"↑ ↓ k j PgUp PgDn Home End: choose a server",
		"Enter: its details; Escape: back", "c m a n p: sort by CPU, memory, age, name, processes", "r: reverse the order",
		"/: show only those with a text; Escape: all", "f: freeze it, or thaw it", "s, then y: stop it", "q, ^C: quit; ^Z: stop this program", "any key: back",
	} {
		lines = append(lines, cli.Wrap(line, max(width, 8))...)
	}
	return lines
}

func (v *topView) lastLine() string {
	switch {
	case v.help:
		return "any key: back"
	case v.typing:
		return cli.OneLine("/" + v.filter + "_")
	case v.asked != "":
		if r := v.find(v.asked); r != nil {
			return cli.OneLine(fmt.Sprintf("Stop %s (%s)? y: yes, any other key: no", show.Fit(r.Name, 32), r.ID))
		}
	case v.note != "":
		return cli.OneLine(v.note)
	case v.details != "":
		return detailHelp
	}
	return listHelp
}

// wish is what a key wants done to a server, beyond what is shown.
type wish struct {
	verb, past string
	do         func(*fleet.Listed) error
	to         *reading
}

func stopIt(r *reading) *wish {
	return &wish{"stop", "stopped", func(s *fleet.Listed) error { s.TellStop(selection.OwnCommand()); return s.Stop(fleet.AsConfigured) }, r}
}

func freezeIt(r *reading) *wish {
	if r.State == fleet.Frozen {
		return &wish{"thaw", "thawed", (*fleet.Listed).Thaw, r}
	}
	return &wish{"freeze", "frozen", (*fleet.Listed).Freeze, r}
}
