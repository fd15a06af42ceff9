// SPDX-License-Identifier: Apache-2.0

package splice

import (
	"bytes"
	"errors"
	"slices"
	"strings"
)

// An Edit puts a text in the place of some bytes.
type Edit struct {
	Start, End int
	Text       string
}

// Apply makes all edits at once. They must not overlap.
func Apply(data []byte, edits []Edit) ([]byte, error) {
	edits = slices.Clone(edits)
	slices.SortStableFunc(edits, func(a, b Edit) int { return a.Start - b.Start })
	var out []byte
	done := 0
	for _, e := range edits {
		if e.Start < done || e.End < e.Start || e.End > len(data) {
			return nil, errors.New("edits overlap")
		}
		out = append(append(out, data[done:e.Start]...), e.Text...)
		done = e.End
	}
	return append(out, data[done:]...), nil
}

// Replace puts another way of writing in the place of a text.
func (d *Document) Replace(n *Node, raw string) Edit { return Edit{n.Start, n.End, raw} }

// Prepend puts items before those of a list. What RemoveFirst takes away is just that.
func (d *Document) Prepend(list *Node, raws []string) Edit {
	between, last := ", ", ", "
	if len(list.Items) == 0 {
		at := list.Start + 1 // behind the bracket
		return Edit{at, at, strings.Join(raws, between)}
	}
	at := list.Items[0].Start
	if gap := string(d.Data[list.Start+1 : at]); strings.Contains(gap, "\n") {
		// Of several lines the new items get one.
		last = "," + d.newline() + d.indentation(at)
	} else if d.compact(list) {
		between, last = ",", ","
	}
	return Edit{at, at, strings.Join(raws, between) + last}
}

// compact tells whether there are no blanks behind the commas.
func (d *Document) compact(list *Node) bool {
	return len(list.Items) > 1 && list.Items[1].Start == list.Items[0].End+1
}

// RemoveFirst takes the first items out of a list.
func (d *Document) RemoveFirst(list *Node, count int) Edit {
	first, last := list.Items[0], list.Items[count-1]
	if count < len(list.Items) {
		return Edit{first.Start, list.Items[count].Start, ""}
	}
	end := last.End
	if rest := bytes.TrimLeft(d.Data[end:], " \t\r\n"); bytes.HasPrefix(rest, []byte(",")) {
		end = len(d.Data) - len(rest) + 1
	}
	return Edit{first.Start, end, ""}
}

// AddList adds a list to a map, beside one of its members: on the line before it where members are a
// line each without commas, for a comment may follow there, else behind it.
func (d *Document) AddList(owner *Node, beside, name string, raws []string) Edit {
	m := owner.Members[owner.index(beside)]
	list := "[" + strings.Join(raws, ", ") + "]"
	switch {
	case d.Format == JSON:
		at := m.Value.End
		return Edit{at, at, "," + d.gapBefore(m.Start) + Quote(name) + ": " + list}
	case owner.Block:
		key := string(d.Data[m.Start:m.Key]) + name
		return Edit{m.Start, m.Start, key + " = " + list + d.newline() + d.indentation(m.Start)}
	default:
		at := m.Value.End
		return Edit{at, at, ", " + name + " = " + list}
	}
}

// newline is how the file's lines end.
func (d *Document) newline() string {
	if i := bytes.IndexByte(d.Data, '\n'); i > 0 && d.Data[i-1] == '\r' {
		return "\r\n"
	}
	return "\n"
}

// gapBefore is the white space before a key, where there is nothing else.
func (d *Document) gapBefore(at int) string {
	start := len(bytes.TrimRight(d.Data[:at], " \t\r\n"))
	gap := string(d.Data[start:at])
	if i := strings.LastIndexByte(gap, '\n'); i >= 0 {
		return d.newline() + gap[i+1:]
	}
	if gap == "" {
		return ""
	}
	return " "
}

// indentation is what brings a new line to the column of at.
func (d *Document) indentation(at int) string {
	start := bytes.LastIndexByte(d.Data[:at], '\n') + 1
	before := bytes.TrimPrefix(d.Data[start:at], []byte(bom))
	if len(bytes.Trim(before, " \t")) == 0 {
		return string(before)
	}
	return strings.Repeat(" ", len([]rune(string(before))))
}
