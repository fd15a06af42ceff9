// SPDX-License-Identifier: Apache-2.0

package splice

import (
	"bytes"
	"encoding/json"
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

// Prepend puts items before those of a list.
func (d *Document) Prepend(list *Node, raws []string) Edit {
	if len(list.Items) == 0 {
		at := list.Start + 1 // behind the bracket
		return Edit{at, at, strings.Join(raws, ", ")}
	}
	at := list.Items[0].Start
	return Edit{at, at, strings.Join(raws, ", ") + ", "}
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

// AddList adds a list to a map, beside one of its members: behind it, or, in a table of TOML with a line for
// each member, on the line before, since a comment can follow the member.
func (d *Document) AddList(owner *Node, beside, name string, raws []string) Edit {
	m := owner.Members[owner.index(beside)]
	list, at := "["+strings.Join(raws, ", ")+"]", m.Value.End
	switch {
	case d.Format == JSON:
		return Edit{at, at, ", " + Quote(name) + ": " + list}
	case !owner.Block:
		return Edit{at, at, ", " + name + " = " + list}
	}
	line := bytes.LastIndexByte(d.Data[:m.Start], '\n') + 1
	indent, newline := bytes.TrimPrefix(d.Data[line:m.Start], []byte(bom)), "\n"
	if bytes.Contains(d.Data, []byte("\r\n")) {
		newline = "\r\n"
	}
	name = string(d.Data[m.Start:m.Key]) + name // with the dots before it
	return Edit{m.Start, m.Start, name + " = " + list + newline + string(indent)}
}

// Quote writes a text so that the readers of JSON, TOML and YAML have it back.
func Quote(s string) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string can always be encoded
	quoted := strings.TrimSuffix(b.String(), "\n")
	// package json does not escape U+007F, but TOML and YAML require it
	return strings.ReplaceAll(quoted, "\x7f", `\u007f`)
}
