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

	"charm.land/bubbles/v2/viewport"

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
	sessions []render.Server
	style    style
	stop     func(*fleet.Listed) error
	order    string // the key of an order
	filter   filter
	cursor   string // the server under the cursor: see key
	row      int    // of the cursor
	firstRow int    // on the screen
	asked    question
	note     string         // the result of the last key, or an error
	details  string         // the server whose details are shown
	help     bool           // the keys are shown
	pager    viewport.Model // of the details or keys
}

// style is how rows are shown.
type style struct{ users, colors bool }

// question is an action on a server that needs a yes. Its verb is "" without a question.
type question struct {
	server     string // see key
	verb, past string
	do         func(*fleet.Listed) error
}

// orders are those that keys stand for.
var orders = map[string]func(a, b *render.Row) int{
	"c": func(a, b *render.Row) int {
		return cmp.Or(cmp.Compare(b.Share, a.Share), cmp.Compare(b.Server.CPU, a.Server.CPU))
	},
	"m": largestFirst("memory"),
	"a": largestFirst("age"),
	"n": func(a, b *render.Row) int { return render.Comparison("name")(&a.Server, &b.Server) },
	"p": largestFirst("procs"),
}

// largestFirst returns the order by one of render.SortColumns, the largest first.
func largestFirst(column string) func(a, b *render.Row) int {
	compare := render.Comparison(column)
	return func(a, b *render.Row) int { return compare(&b.Server, &a.Server) }
}

var orderNames = map[string]string{"c": "CPU", "m": "memory", "a": "age", "n": "name", "p": "processes"}

// shown are those that the filter lets through, in order.
func (v *view) shown() (rows []render.Row) {
	for _, r := range v.readings {
		if r.contains(v.filter.text) {
			rows = append(rows, r.row)
		}
	}
	slices.SortStableFunc(rows, func(a, b render.Row) int {
		return cmp.Or(orders[v.order](&a, &b), strings.Compare(a.Server.ID, b.Server.ID))
	})
	if v.filter.text != "" {
		return rows
	}
	return render.Grouped(rows, v.sessions)
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
	i := slices.IndexFunc(v.readings, func(r reading) bool { return key(r.row) == server })
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

// lines returns the content of a terminal of that size. If the height is too small for all lines, it returns
// the last ones.
func (v *view) lines(width, height int) []string {
	const lastLine = 1
	above := max(height-lastLine, 2) // at least the summary and the heads
	r := v.find(v.details)
	if r == nil && v.details != "" {
		v.details = ""
		v.note = "it has ended"
	}
	var lines []string
	switch {
	case v.help:
		lines = v.paged(helpLines(width), width, above)
	case r != nil:
		lines = v.paged(r.details(width), width, above)
	default:
		lines = v.listLines(width, above)
	}
	for len(lines) < height-lastLine {
		lines = append(lines, "")
	}
	lines = append(lines, render.Fit(v.bottom(width), width))
	return lines[max(len(lines)-height, 0):]
}

// paged returns the lines that the pager shows.
func (v *view) paged(lines []string, width, height int) []string {
	v.pager.SetWidth(width)
	v.pager.SetHeight(height)
	v.pager.SetContentLines(lines)
	return strings.Split(v.pager.View(), "\n")
}

// listLines returns a summary, the heads and the rows around the cursor, at most that many lines. The table
// of bubbles 2.2.1 cannot: it has one style for all rows, and needs widths of columns, which Watched has for
// ls, too. Its SetCursor does not scroll, so a cursor that follows its server would leave the screen.
func (v *view) listLines(width, most int) []string {
	const bold, reversed, normal = "\x1b[1m", "\x1b[7m", "\x1b[m"
	rows := v.shown()
	row := v.selected(rows)
	table := render.Watched(rows, width, v.style.users)
	lines := []string{render.Fit(v.summary(len(rows), width), width), bold + table[0] + normal}
	room := most - len(lines)
	v.firstRow = max(min(v.firstRow, row, len(rows)-room), row-room+1, 0)
	for i := v.firstRow; i < min(v.firstRow+room, len(rows)); i++ {
		line := table[1+i]
		style := ""
		if v.style.colors {
			style = colorOf(&rows[i])
		}
		if i == row {
			style += reversed
			line = render.Padded(line, width)
		}
		if style != "" {
			line = style + line + normal
		}
		lines = append(lines, line)
	}
	return lines
}

// colorOf is the color of a row, and "" for a server of which there is nothing to say.
func colorOf(r *render.Row) string {
	const yellow, blue, cyan = "\x1b[33m", "\x1b[34m", "\x1b[36m"
	switch {
	case isNearLimit(r):
		return yellow
	case r.Server.State == fleet.Frozen:
		return blue
	case r.Server.State == fleet.Idle:
		return cyan
	}
	return ""
}

// isNearLimit reports whether a server uses more than 80 % of one of its limits. Its processes are a lower
// bound of the tasks that pids.max counts.
func isNearLimit(r *render.Row) bool {
	const near = 0.8
	memory := r.Server.Limit("memory.max")
	tasks := r.Server.Limit("pids.max")
	cpus, hasCPULimit := r.Server.CPULimit()
	switch {
	case memory != nil && float64(r.Server.MemoryBytes()) > near*float64(*memory):
		return true
	case tasks != nil && float64(r.Server.Processes) > near*float64(*tasks):
		return true
	}
	return hasCPULimit && r.Share > near*cpus
}

// summary is about all servers, not only those that are shown. A narrow terminal has the parts that matter
// most.
func (v *view) summary(shown, width int) string {
	var count int
	var share float64
	var memory uint64
	for _, r := range v.readings {
		count += r.row.Server.Processes
		share += max(r.row.Share, 0)
		memory += r.row.Server.MemoryBytes()
	}
	processes := cli.Counted(count, "process")
	order := "by " + orderNames[v.order]
	parts := []string{
		cli.Counted(len(v.readings), "server"), processes, fmt.Sprintf("CPU %.1f%%", 100*share),
		"memory " + cli.HumanBytes(memory), order,
	}
	if v.filter.text != "" {
		parts = append(parts, fmt.Sprintf("%d with %q", shown, v.filter.text))
	}
	for _, least := range []string{processes, order} {
		if len(strings.Join(parts, ", ")) > width {
			parts = slices.DeleteFunc(parts, func(part string) bool { return part == least })
		}
	}
	return cli.OneLine(strings.Join(parts, ", "))
}

// bottom is the filter while it is typed, or a message, or the keys.
func (v *view) bottom(width int) string {
	if v.filter.isTyped() {
		return v.filter.line(width)
	}
	message := cli.OneLine(v.lastLine())
	if message != "" {
		return message
	}
	return joinFitting(keyHints(v.help, v.details != ""), width)
}

// lastLine is "" without a question and a note.
func (v *view) lastLine() string {
	asked := v.find(v.asked.server)
	if asked != nil {
		name := render.Fit(asked.row.Server.Name, nameMost)
		verb := strings.ToUpper(v.asked.verb[:1]) + v.asked.verb[1:]
		return fmt.Sprintf("%s %s (%s)? y: yes, any other key: no", verb, name, asked.row.Server.ID)
	}
	return v.note
}

// keyHints are the keys that help most on the screen of the keys, of details or of the list.
func keyHints(inHelp, inDetails bool) []string {
	switch {
	case inHelp:
		return []string{"q back", "↑↓"}
	case inDetails:
		return []string{"q back", "? keys", "s stop", "f freeze/thaw", "↑↓"}
	}
	return []string{
		"q quit", "? keys", "Enter details", "s stop", "f freeze/thaw", "/ filter", "sort: c m a n p",
	}
}

// joinFitting leaves out whole hints from the end, but not the first two: they lead to all the others.
func joinFitting(hints []string, width int) string {
	const kept = 2
	line := strings.Join(hints, "  ")
	for utf8.RuneCountInString(line) > width && len(hints) > kept {
		hints = hints[:len(hints)-1]
		line = strings.Join(hints, "  ")
	}
	return line
}

// withoutChange returns an act that does not report whether anything has changed: the next refresh shows it.
func withoutChange(act func(*fleet.Listed) (bool, error)) func(*fleet.Listed) error {
	return func(s *fleet.Listed) error {
		_, err := act(s)
		return err
	}
}
