// SPDX-License-Identifier: Apache-2.0

package splice

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// SeveralDocuments is the obstacle of a file that has more than one document.
const SeveralDocuments = "the file has several YAML documents"

// OtherLineBreaks is the obstacle of a file in which lines end at more than \n, by which this package finds
// values, comments and secrets.
const OtherLineBreaks = `the file has line breaks other than \n and \r\n, such as U+2028`

// hasOtherLineBreaks knows the line breaks of the library: \r, NEL, LS and PS beside \n and \r\n.
func hasOtherLineBreaks(data []byte) bool {
	isLone := bytes.Count(data, []byte("\r")) > bytes.Count(data, []byte("\r\n"))
	return isLone || bytes.ContainsAny(data, "\u0085\u2028\u2029")
}

// parseYAML reads the first document of a file.
func parseYAML(data []byte) (root *Node, obstacle string, err error) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var first, second yaml.Node
	err = decoder.Decode(&first)
	hasOnlyComments := errors.Is(err, io.EOF) || err == nil && len(first.Content) == 0
	if hasOnlyComments {
		return &Node{Kind: Map}, "", nil
	}
	if err != nil {
		return nil, "", malformedYAML(err)
	}
	switch {
	case hasOtherLineBreaks(data):
		obstacle = OtherLineBreaks
	case !errors.Is(decoder.Decode(&second), io.EOF):
		obstacle = SeveralDocuments
	}
	r := yamlReader{data: data, lines: []int{0}}
	if bytes.HasPrefix(data, []byte(bom)) { // the library does not count it
		r.lines[0] = len(bom)
	}
	for i, c := range data {
		if c == '\n' {
			r.lines = append(r.lines, i+1)
		}
	}
	return r.value(first.Content[0], false), obstacle, nil
}

// malformedYAML has the line of an error of the library, and none of its text.
func malformedYAML(err error) *SyntaxError {
	e := malformed(YAML)
	if _, text, found := strings.Cut(err.Error(), "yaml: line "); found {
		_, _ = fmt.Sscanf(text, "%d:", &e.Line) // 0 without one
		e.Column = 1
	}
	return e
}

// yamlReader finds the places of values. The library has the line and column at which each begins, and counts
// characters. Values come in the order of the file, so each is searched from the one before.
type yamlReader struct {
	data  []byte
	lines []int // where each begins
	last  place
}

// place is the place of a value that was found.
type place struct {
	line, column int
	offset       int // in the file
}

// value does not follow aliases: a value can contain an alias of itself. isShared is whether the value is a
// part of one with an anchor, which has other uses.
func (r *yamlReader) value(y *yaml.Node, isShared bool) *Node {
	n := &Node{Kind: Other, Text: y.Value, Start: r.offset(y)}
	isShared = isShared || y.Anchor != ""
	isTagged := y.Style&yaml.TaggedStyle != 0
	switch {
	case y.Kind == yaml.MappingNode:
		n.Kind = Map
		n.Block = y.Style&yaml.FlowStyle == 0
		n.Fixed = isShared
		for i := 0; i+1 < len(y.Content); i += 2 {
			key := y.Content[i]
			start := r.offset(key)
			value := r.value(y.Content[i+1], isShared)
			n.Members = append(n.Members, Member{Name: key.Value, Start: start, Key: start, Value: value})
		}
	case y.Kind == yaml.SequenceNode:
		n.Kind = List
		n.Block = y.Style&yaml.FlowStyle == 0
		n.Fixed = isShared || isTagged
		for _, item := range y.Content {
			value := r.value(item, isShared)
			n.Fixed = n.Fixed || n.Block && !r.isBehindDash(value.Start)
			n.Items = append(n.Items, value)
		}
	case y.Kind == yaml.ScalarNode:
		if y.ShortTag() == "!!str" {
			n.Kind = Text
		}
		n.End = r.end(y, n.Start)
		n.Fixed = isShared || isTagged || n.End <= n.Start
	default:
		n.Fixed = true
	}
	return n
}

// offset returns the place of a value.
func (r *yamlReader) offset(y *yaml.Node) int {
	if y.Line < 1 || y.Line > len(r.lines) {
		return 0
	}
	isBehindLast := y.Line == r.last.line && y.Column >= r.last.column
	if !isBehindLast {
		r.last = place{line: y.Line, column: 1, offset: r.lines[y.Line-1]}
	}
	for r.last.column < y.Column && r.last.offset < len(r.data) {
		_, size := utf8.DecodeRune(r.data[r.last.offset:])
		r.last.offset += size
		r.last.column++
	}
	return r.last.offset
}

// end returns the end of a text of one line, 0 for any other.
func (r *yamlReader) end(y *yaml.Node, start int) int {
	line, _, _ := bytes.Cut(r.data[start:], []byte("\n"))
	length := 0
	switch {
	case y.Style&yaml.DoubleQuotedStyle != 0:
		length = quotedLength(line, '"', '\\')
	case y.Style&yaml.SingleQuotedStyle != 0:
		length = quotedLength(line, '\'', '\'')
	case y.Style&(yaml.LiteralStyle|yaml.FoldedStyle) == 0 && bytes.HasPrefix(line, []byte(y.Value)):
		return start + len(y.Value)
	}
	var again yaml.Node
	raw := line[:length]
	if length == 0 || yaml.Unmarshal(raw, &again) != nil || again.Content[0].Value != y.Value {
		return 0
	}
	return start + length
}

// quotedLength returns the length of a text in quotes at the beginning of a line, or 0. A quote
// behind the escape is a part of the text.
func quotedLength(line []byte, quote, escape byte) int {
	if len(line) == 0 || line[0] != quote {
		return 0
	}
	for i := 1; i < len(line); i++ {
		isEscape := line[i] == escape && (escape != quote || i+1 < len(line) && line[i+1] == quote)
		switch {
		case isEscape:
			i++
		case line[i] == quote:
			return i + 1
		}
	}
	return 0
}

// isBehindDash reports whether a line has only dashes before a place, and the last of them is its item's.
func (r *yamlReader) isBehindDash(position int) bool {
	line := bytes.LastIndexByte(r.data[:position], '\n') + 1
	before := string(r.data[line:position])
	return strings.Trim(before, " -") == "" && strings.HasSuffix(strings.TrimRight(before, " "), "-")
}
