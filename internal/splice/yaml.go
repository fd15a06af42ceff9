// SPDX-License-Identifier: Apache-2.0

package splice

import (
	"bytes"
	"errors"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Why a part of a YAML file is left alone.
const (
	isAlias     = "it is an alias (*) of another part"
	isAnchored  = "it has an anchor (&), so it may stand for other parts too"
	isTagged    = "it has a tag (!)"
	isMerged    = "it takes parts from another (<<)"
	isLines     = "it is written over several lines"
	isSeveral   = "there are several documents in the file"
	isElsewhere = "it is written in a way that mcpscope cannot place"
)

// parseYAML hides CRs from the parser, which counts a line twice where one ends a comment.
func parseYAML(data []byte) (*Node, error) {
	if dashes(data) {
		return nil, &SyntaxError{Text: "is nested too deeply"}
	}
	crlf := []byte("\r\n")
	if !bytes.Contains(data, crlf) {
		return parseLines(data)
	}
	root, err := parseLines(bytes.ReplaceAll(data, crlf, []byte("\n")))
	if err != nil {
		return nil, err
	}
	var breaks []int // where a CR is missing
	for i := range data {
		if bytes.HasPrefix(data[i:], crlf) {
			breaks = append(breaks, i-len(breaks))
		}
	}
	root.move(func(offset int) int { return offset + sort.SearchInts(breaks, offset) })
	return root, nil
}

func parseLines(data []byte) (*Node, error) {
	file, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		e := malformed(YAML)
		// The package that names this type would cost every start as much as the parser does.
		var at interface{ GetToken() *token.Token }
		if errors.As(err, &at) && at.GetToken() != nil {
			e.Line, e.Column = at.GetToken().Position.Line, at.GetToken().Position.Column
		}
		return nil, e
	}
	r := yamlReader{data: data, lines: lineStarts(data)}
	root, bodies := &Node{Kind: Map, Block: true}, 0
	for _, doc := range file.Docs {
		if _, comment := doc.Body.(*ast.CommentGroupNode); doc.Body == nil || comment {
			continue
		}
		if bodies++; bodies == 1 {
			root = r.node(doc.Body)
		}
	}
	if bodies > 1 {
		root.Fixed = isSeveral
	}
	return root, nil
}

// lineStarts is for the parser's offsets drift where there are comments; its lines and columns do not.
func lineStarts(data []byte) []int {
	starts := []int{0}
	for i, c := range data {
		if c == '\n' || c == '\r' && (i+1 == len(data) || data[i+1] != '\n') {
			starts = append(starts, i+1)
		}
	}
	return starts
}

type yamlReader struct {
	data  []byte
	lines []int
}

// at is where a token begins, or -1.
func (r *yamlReader) at(t *token.Token) int {
	if t == nil || t.Position == nil || t.Position.Line < 1 || t.Position.Line > len(r.lines) {
		return -1
	}
	offset := r.lines[t.Position.Line-1]
	for range t.Position.Column - 1 {
		if offset >= len(r.data) {
			return -1
		}
		_, n := utf8.DecodeRune(r.data[offset:])
		offset += n
	}
	return offset
}

func (r *yamlReader) begins(offset int, with string) bool {
	return offset >= 0 && offset <= len(r.data) && bytes.HasPrefix(r.data[offset:], []byte(with))
}

func (r *yamlReader) node(a ast.Node) *Node {
	switch a := a.(type) {
	case *ast.MappingNode:
		return r.mapping(a.Start, a.IsFlowStyle, a.Values)
	case *ast.MappingValueNode:
		return r.mapping(a.Start, a.IsFlowStyle, []*ast.MappingValueNode{a})
	case *ast.SequenceNode:
		return r.sequence(a)
	case *ast.StringNode:
		return r.text(a)
	case *ast.LiteralNode:
		return &Node{Kind: Text, Text: a.Value.Value, Fixed: isLines}
	case *ast.AnchorNode:
		n := r.node(a.Value)
		n.Start, n.Fixed = r.at(a.Start), isAnchored
		return n
	case *ast.TagNode:
		n := &Node{Kind: Other}
		if a.Value != nil {
			n = r.node(a.Value)
		}
		n.Start, n.Fixed = r.at(a.Start), isTagged
		return n
	case *ast.AliasNode:
		return &Node{Kind: Other, Text: "*" + a.Value.GetToken().Value, Start: r.at(a.Start), Fixed: isAlias}
	case nil:
		return &Node{Kind: Other}
	}
	n := &Node{Kind: Other, Text: a.GetToken().Value, Start: r.at(a.GetToken())}
	if !r.begins(n.Start, n.Text) {
		n.Fixed = isElsewhere
	}
	return n
}

func (r *yamlReader) mapping(start *token.Token, flow bool, values []*ast.MappingValueNode) *Node {
	n := &Node{Kind: Map, Block: !flow, Start: r.at(start)}
	for _, v := range values {
		m := Member{Value: r.node(v.Value)}
		switch key := v.Key.(type) {
		case *ast.MergeKeyNode:
			m.Name, n.Fixed = "<<", isMerged
		case *ast.StringNode:
			text := r.text(key)
			m.Name, m.Start, m.Key = text.Text, text.Start, text.Start
			if text.Fixed != "" {
				n.Fixed = isElsewhere
			}
		default:
			m.Name = strings.TrimSpace(v.Key.String())
			if _, complicated := v.Key.(*ast.MappingKeyNode); complicated {
				n.Fixed = isElsewhere
			}
		}
		n.Members = append(n.Members, m)
	}
	return n
}

func (r *yamlReader) sequence(a *ast.SequenceNode) *Node {
	n := &Node{Kind: List, Block: !a.IsFlowStyle, Start: r.at(a.Start)}
	mark := "-"
	if a.IsFlowStyle {
		mark = "["
	}
	if !r.begins(n.Start, mark) || len(a.Entries) != len(a.Values) {
		n.Fixed = isElsewhere
	}
	for i, v := range a.Values {
		item := r.node(v)
		item.Lead = item.Start
		if n.Block && n.Fixed == "" {
			if item.Lead = r.at(a.Entries[i].Start); !r.begins(item.Lead, "-") {
				n.Fixed = isElsewhere
			}
		}
		n.Items = append(n.Items, item)
	}
	return n
}
