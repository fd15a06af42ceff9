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
	switch {
	case len(list.Items) == 0:
		at := list.Start + 1 // behind the bracket: an empty list has one in every format
		return Edit{at, at, strings.Join(raws, between)}
	case list.Block:
		at := list.Items[0].Lead
		between = d.Newline() + d.indentation(at) + "- "
		return Edit{at, at, "- " + strings.Join(raws, between) + strings.TrimSuffix(between, "- ")}
	}
	at := list.Items[0].Start
	if gap := string(d.Data[list.Start+1 : at]); strings.Contains(gap, "\n") {
		// Of several lines the new items get one.
		last = "," + d.Newline() + d.indentation(at)
	} else if d.compact(list) {
		between, last = ",", ","
	}
	return Edit{at, at, strings.Join(raws, between) + last}
}

// compact tells whether there are no blanks behind the commas.
func (d *Document) compact(list *Node) bool {
	return len(list.Items) > 1 && list.Items[0].End > 0 && list.Items[1].Start == list.Items[0].End+1
}

// RemoveFirst takes the first items out of a list.
func (d *Document) RemoveFirst(list *Node, count int) (Edit, error) {
	first, last := list.Items[0], list.Items[count-1]
	switch {
	case count < len(list.Items):
		return Edit{first.Lead, list.Items[count].Lead, ""}, nil
	case last.End == 0:
		return Edit{}, errors.New("its end is unknown")
	case list.Block:
		return Edit{first.Lead, last.End, "[]"}, nil
	}
	end := last.End
	if rest := bytes.TrimLeft(d.Data[end:], " \t\r\n"); bytes.HasPrefix(rest, []byte(",")) {
		end = len(d.Data) - len(rest) + 1
	}
	return Edit{first.Start, end, ""}, nil
}

// AddList adds a list to a map, beside one of its members: on the line before it where members are a
// line each without commas, for a comment may follow there, else behind it.
func (d *Document) AddList(owner *Node, beside, name string, raws []string) Edit {
	i := owner.index(beside)
	m := owner.Members[i]
	list := "[" + strings.Join(raws, ", ") + "]"
	switch {
	case d.Format == JSON:
		at := m.Value.End
		return Edit{at, at, "," + d.gapBefore(m.Start) + Quote(JSON, name) + ": " + list}
	case owner.Block:
		key := string(d.Data[m.Start:m.Key]) + name
		return Edit{m.Start, m.Start, key + d.assign() + list + d.Newline() + d.indentation(m.Start)}
	default:
		at := m.Value.End
		return Edit{at, at, ", " + name + d.assign() + list}
	}
}

// RemoveList undoes AddList. It is an error if the list is not where that has put it.
func (d *Document) RemoveList(owner *Node, beside, name string) (Edit, error) {
	i, j := owner.index(beside), owner.index(name)
	switch {
	case i < 0 || j < 0:
	case d.Format != JSON && owner.Block && j == i-1:
		return Edit{owner.Members[j].Start, owner.Members[i].Start, ""}, nil
	case (d.Format == JSON || !owner.Block) && j == i+1:
		if end := d.listEnd(owner.Members[j].Value); end > 0 {
			return Edit{owner.Members[i].Value.End, end, ""}, nil
		}
	}
	return Edit{}, errors.New("it was moved")
}

func (d *Document) listEnd(list *Node) int {
	if list.End > 0 || len(list.Items) == 0 {
		return list.End
	}
	last := list.Items[len(list.Items)-1].End
	rest := bytes.TrimLeft(d.Data[last:], " \t\r\n,")
	if last == 0 || !bytes.HasPrefix(rest, []byte("]")) {
		return 0
	}
	return len(d.Data) - len(rest) + 1
}

func (d *Document) assign() string {
	if d.Format == TOML {
		return " = "
	}
	return ": "
}

// gapBefore is the white space before a key, where there is nothing else.
func (d *Document) gapBefore(at int) string {
	start := len(bytes.TrimRight(d.Data[:at], " \t\r\n"))
	gap := string(d.Data[start:at])
	if i := strings.LastIndexByte(gap, '\n'); i >= 0 {
		return d.Newline() + gap[i+1:]
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
