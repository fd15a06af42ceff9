// SPDX-License-Identifier: Apache-2.0

package splice

import (
	"bytes"
	"slices"
	"strings"
)

// Masked replaces a value or a comment that may be a secret.
const Masked = "…"

// Mask returns the text of the file with its lines, keys and shown values. All other values and all comments
// are masked, but for true, false and null.
func (d *Document) Mask(isShown func(*Node) bool) []byte {
	m := masker{document: d, isShown: isShown}
	m.collect(d.Root)
	slices.SortFunc(m.values, func(a, b *Node) int { return a.Start - b.Start })
	slices.Sort(m.starts)
	done := 0
	for _, n := range m.values {
		if n.Start < done { // within the last one, whose end is not known
			continue
		}
		m.maskComments(done, n.Start)
		done = m.endOf(n)
		if m.isSecret(n) {
			m.out.WriteString(m.hidden(n, done))
			continue
		}
		m.out.Write(d.Data[n.Start:done])
	}
	m.maskComments(done, len(d.Data))
	return m.out.Bytes()
}

type masker struct {
	document *Document
	isShown  func(*Node) bool
	values   []*Node // without maps and lists
	starts   []int   // of values, maps, lists and keys
	out      bytes.Buffer
}

func (m *masker) collect(n *Node) {
	isEmpty := n.Kind == Other && n.Text == "" // a key of YAML without a value
	isValue := n.Kind == Text || n.Kind == Other
	if isValue && !isEmpty {
		m.values = append(m.values, n)
	}
	m.starts = append(m.starts, n.Start)
	for _, member := range n.Members {
		m.starts = append(m.starts, member.Start)
		m.collect(member.Value)
	}
	for _, item := range n.Items {
		m.collect(item)
	}
}

func (m *masker) isSecret(n *Node) bool {
	isPlain := n.Kind == Other && slices.Contains([]string{"true", "false", "null"}, n.Text)
	hasEnd := n.End > n.Start
	return !hasEnd || !isPlain && !m.isShown(n)
}

// endOf returns the end of a value. In YAML it can be unknown: then the value may have all text up to the
// next key or value, but for the dashes and the indentation of that.
func (m *masker) endOf(n *Node) int {
	if n.End > n.Start {
		return n.End
	}
	data := m.document.Data
	end := len(data)
	next, _ := slices.BinarySearch(m.starts, n.Start+1)
	if next < len(m.starts) {
		end = m.starts[next]
	}
	lastLine := n.Start + bytes.LastIndexByte(data[n.Start:end], '\n') + 1
	if lastLine > n.Start && len(bytes.Trim(data[lastLine:end], " \t-")) == 0 {
		end = lastLine
	}
	return n.Start + len(bytes.TrimRight(data[n.Start:end], " \t\r\n,"))
}

// hidden has as many lines as the value, with their indentation.
func (m *masker) hidden(n *Node, end int) string {
	first, rest, hasMore := strings.Cut(string(m.document.Data[n.Start:end]), "\n")
	mask := Masked
	if n.Kind == Text {
		mask = `"` + Masked + `"`
	}
	if strings.HasSuffix(first, "\r") {
		mask += "\r"
	}
	if !hasMore {
		return mask
	}
	lines := []string{mask}
	for line := range strings.SplitSeq(rest, "\n") {
		text := strings.TrimLeft(line, " \t")
		if strings.TrimRight(text, "\r") != "" {
			line = line[:len(line)-len(text)] + Masked
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// maskComments writes the text between two values: keys, punctuation and comments.
func (m *masker) maskComments(start, end int) {
	data := m.document.Data
	for start < end {
		length := m.quoted(start, end)
		if length > 0 {
			m.out.Write(data[start : start+length])
			start += length
			continue
		}
		opening, closing := m.comment(start)
		if opening == "" {
			m.out.WriteByte(data[start])
			start++
			continue
		}
		start += len(opening)
		length = bytes.Index(data[start:end], []byte(closing))
		if length < 0 {
			length = end - start
		}
		m.out.WriteString(opening)
		m.out.WriteString(m.hidden(&Node{Start: start}, start+length))
		start += length
	}
}

// comment returns the marks of a comment that begins at a position between values, or "".
func (m *masker) comment(position int) (opening, closing string) {
	rest := m.document.Data[position:]
	switch {
	case m.document.Format == JSON && bytes.HasPrefix(rest, []byte("//")):
		return "//", "\n"
	case m.document.Format == JSON && bytes.HasPrefix(rest, []byte("/*")):
		return "/*", "*/"
	case m.document.Format == JSON || rest[0] != '#':
		return "", ""
	case m.document.Format == YAML && !m.beginsWord(position):
		return "", ""
	}
	return "#", "\n"
}

// quoted returns the length of a key in quotes at a position, which may have the marks of a comment, or 0.
func (m *masker) quoted(position, end int) int {
	line, _, _ := bytes.Cut(m.document.Data[position:end], []byte("\n"))
	switch {
	case m.document.Format == YAML && !m.beginsWord(position):
		return 0
	case m.document.Format == JSON:
		return quotedLength(line, '"', '\\')
	}
	return max(quotedLength(line, '"', '\\'), quotedLength(line, '\'', '\''))
}

// beginsWord reports whether the text before a position in YAML ends a word.
func (m *masker) beginsWord(position int) bool {
	data := m.document.Data
	isFirst := position == 0 || position == len(bom) && bytes.HasPrefix(data, []byte(bom))
	return isFirst || strings.ContainsRune(" \t\r\n{[,", rune(data[position-1]))
}
