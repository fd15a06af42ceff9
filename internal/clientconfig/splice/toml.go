// SPDX-License-Identifier: Apache-2.0

package splice

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// largestTOML is the size of a file in MiB that is parsed. The library bounds how deep values are in each
// other, and not the parts of a key: each is a table in the one before, and they are walked by recursion.
const largestTOML = 2

// parseTOML has the file judged by the decoder first: the parser of single expressions does not
// know what may be defined twice.
func parseTOML(data []byte) (*Node, error) {
	if len(data) > largestTOML<<20 {
		return nil, &SyntaxError{Text: fmt.Sprintf("larger than %d MiB", largestTOML)}
	}
	var values map[string]any
	if err := toml.Unmarshal(data, &values); err != nil {
		e := malformed(TOML)
		if decode, ok := errors.AsType[*toml.DecodeError](err); ok {
			e.Line, e.Column = decode.Position()
		}
		return nil, e
	}
	t := tomlReader{data: data}
	root := &Node{Kind: Map, Block: true}
	table := root // that of the expression
	t.parser.Reset(data)
	for t.parser.NextExpression() {
		e := t.parser.Expression()
		switch e.Kind {
		case unstable.Table:
			keys, _ := t.keys(e)
			table = descend(root, keys)
		case unstable.ArrayTable:
			keys, _ := t.keys(e)
			last := keys[len(keys)-1]
			parent := descend(root, keys[:len(keys)-1])
			list := parent.Get(last.Name)
			if list == nil {
				list = &Node{Kind: List}
				last.Value = list
				parent.Members = append(parent.Members, last)
			}
			table = &Node{Kind: Map, Block: true}
			list.Items = append(list.Items, table)
		case unstable.KeyValue:
			t.add(table, e)
		}
	}
	if t.parser.Error() != nil {
		return nil, malformed(TOML)
	}
	return root, nil
}

type tomlReader struct {
	parser unstable.Parser
	data   []byte
}

// keys are the parts of a key, and where it ends; Start of each is where the first one begins.
func (t *tomlReader) keys(n *unstable.Node) (keys []Member, end int) {
	start := -1
	it := n.Key()
	for it.Next() {
		raw := it.Node().Raw
		if start < 0 {
			start = int(raw.Offset)
		}
		keys = append(keys, Member{Name: string(it.Node().Data), Start: start, Key: int(raw.Offset)})
		end = int(raw.Offset + raw.Length)
	}
	return keys, end
}

// descend goes to the table of that name. Of an array of tables the last one is meant.
func descend(n *Node, keys []Member) *Node {
	for _, key := range keys {
		next := n.Get(key.Name)
		switch {
		case next == nil:
			next = &Node{Kind: Map, Block: true}
			key.Value = next
			n.Members = append(n.Members, key)
		case next.Kind == List:
			next = next.Items[len(next.Items)-1]
		}
		n = next
	}
	return n
}

func (t *tomlReader) add(table *Node, e *unstable.Node) {
	keys, end := t.keys(e)
	// Nodes of arrays do not say where they are.
	start := len(t.data) - len(bytes.TrimLeft(t.data[end:], " \t="))
	member := keys[len(keys)-1]
	member.Value = t.value(e.Value(), start, int(e.Raw.Offset+e.Raw.Length))
	inner := descend(table, keys[:len(keys)-1])
	inner.Members = append(inner.Members, member)
}

func (t *tomlReader) value(v *unstable.Node, start, end int) *Node {
	n := &Node{Start: start, End: end}
	switch v.Kind {
	case unstable.String:
		n.Kind = Text
		n.Text = string(v.Data)
	case unstable.InlineTable:
		n.Kind = Map
		it := v.Children()
		for it.Next() {
			if it.Node().Kind == unstable.KeyValue {
				t.add(n, it.Node())
			}
		}
	case unstable.Array:
		n.Kind = List
		it := v.Children()
		for it.Next() {
			item := it.Node()
			start := int(item.Raw.Offset)
			n.Items = append(n.Items, t.value(item, start, start+int(item.Raw.Length)))
		}
	default:
		n.Kind = Other
		n.Text = string(v.Data)
	}
	return n
}
