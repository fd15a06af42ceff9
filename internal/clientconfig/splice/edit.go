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

// insertion puts a text in front of a byte, and removes nothing.
func insertion(position int, text string) Edit { return Edit{position, position, text} }

// Replace puts another way of writing in the place of a text.
func (d *Document) Replace(n *Node, raw string) Edit { return Edit{n.Start, n.End, raw} }

// Transplant makes the change of a person in the text before other edits. edits make after of before, and the
// person has made now of after, in one place. It returns nil if that place has a part of an edit.
func Transplant(before []byte, edits []Edit, after, now []byte) []byte {
	start := commonPrefix(after, now)
	rest := commonSuffix(after[start:], now[start:])
	first, ok := positionBefore(edits, start)
	end, alsoOK := positionBefore(edits, len(after)-rest)
	if !ok || !alsoOK || first > end {
		return nil
	}
	return slices.Concat(before[:first], now[start:len(now)-rest], before[end:])
}

// positionBefore returns the position that a position in the result of edits had before them. ok is false
// within the text of an edit.
func positionBefore(edits []Edit, position int) (before int, ok bool) {
	edits = slices.Clone(edits)
	slices.SortStableFunc(edits, func(a, b Edit) int { return a.Start - b.Start })
	shift := 0 // by the edits so far
	for _, e := range edits {
		start := e.Start + shift
		if position <= start {
			break
		}
		if position < start+len(e.Text) {
			return 0, false
		}
		shift += len(e.Text) - (e.End - e.Start)
	}
	return position - shift, true
}

func commonPrefix(a, b []byte) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

func commonSuffix(a, b []byte) int {
	n := 0
	for n < len(a) && n < len(b) && a[len(a)-1-n] == b[len(b)-1-n] {
		n++
	}
	return n
}

// RawIn is how a text is written as an item of a list: of a new one, if the list is nil.
func (d *Document) RawIn(list, text *Node) string {
	raw := d.Raw(text)
	isPlain := d.Format == YAML && raw[0] != '"' && raw[0] != '\''
	if isPlain && (list == nil || !list.Block) { // a comma or bracket in it would be one of the list
		return Quote(text.Text)
	}
	return raw
}

// Insert puts items into a list, before one of its items or, with nil, into an empty list.
func (d *Document) Insert(list, before *Node, raws []string) Edit {
	switch {
	case before == nil:
		behindBracket := list.Start + 1
		return insertion(behindBracket, strings.Join(raws, ", "))
	case list.Block:
		dash := d.dash(before)
		newLine := d.newline() + d.indentation(dash)
		return insertion(dash, "- "+strings.Join(raws, newLine+"- ")+newLine)
	}
	return insertion(before.Start, strings.Join(raws, ", ")+", ")
}

// RemoveFirst takes the first items out of a list.
func (d *Document) RemoveFirst(list *Node, count int) Edit {
	first := list.Items[0]
	last := list.Items[count-1]
	if list.Block {
		if count < len(list.Items) {
			return Edit{d.dash(first), d.dash(list.Items[count]), ""}
		}
		key := bytes.TrimRight(d.Data[:list.Start], " \t\r\n") // up to its colon
		return Edit{len(key), last.End, " []"}
	}
	if count < len(list.Items) {
		return Edit{first.Start, list.Items[count].Start, ""}
	}
	end := last.End
	rest := bytes.TrimLeft(d.Data[end:], " \t\r\n")
	if bytes.HasPrefix(rest, []byte(",")) {
		end = len(d.Data) - len(rest) + 1
	}
	return Edit{first.Start, end, ""}
}

// AddList adds a list to a map, beside one of its members: behind it, or, in a map with a line for each
// member, on the line before, since a comment can follow the member.
func (d *Document) AddList(owner *Node, beside, name string, raws []string) Edit {
	m := owner.Members[owner.index(beside)]
	list := "[" + strings.Join(raws, ", ") + "]"
	behind := m.Value.End
	newLine := d.newline() + d.indentation(m.Start)
	switch {
	case d.Format == JSON:
		return insertion(behind, ", "+Quote(name)+": "+list)
	case d.Format == YAML && !owner.Block:
		return insertion(behind, ", "+name+": "+list)
	case d.Format == YAML:
		return insertion(m.Start, name+": "+list+newLine)
	case !owner.Block:
		return insertion(behind, ", "+name+" = "+list)
	}
	name = string(d.Data[m.Start:m.Key]) + name // with the dots before it
	return insertion(m.Start, name+" = "+list+newLine)
}

// newline is how the lines of the file end.
func (d *Document) newline() string {
	if bytes.Contains(d.Data, []byte("\r\n")) {
		return "\r\n"
	}
	return "\n"
}

// indentation is the text before a column, for another line that begins in the same column. In YAML the line
// can have the dashes of lists before it.
func (d *Document) indentation(position int) string {
	line := bytes.LastIndexByte(d.Data[:position], '\n') + 1
	before := bytes.TrimPrefix(d.Data[line:position], []byte(bom))
	return strings.ReplaceAll(string(before), "-", " ")
}

// dash returns where the dash of a block list's item is.
func (d *Document) dash(item *Node) int {
	return bytes.LastIndexByte(d.Data[:item.Start], '-')
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
