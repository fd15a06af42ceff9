// SPDX-License-Identifier: Apache-2.0

package splice

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/tailscale/hujson"
)

// mostNested is how deep values may be in each other, as in the parsers of TOML and YAML.
const mostNested = 10_000

func parseJSON(data []byte) (*Node, error) {
	// The parser calls itself for each level, and a stack that overflows ends the program.
	s := unclosedScanner{data: data, most: mostNested}
	s.scan(s.endInJSON)
	if len(s.open) > mostNested {
		return nil, &SyntaxError{Text: fmt.Sprintf("nested more than %d levels deep", mostNested)}
	}
	// A comment may be the last thing in a file, without the line end that the parser wants.
	v, err := hujson.Parse(append(data[:len(data):len(data)], '\n'))
	if err != nil {
		e := malformed(JSON)
		// The text is the only place where the package has the position.
		text := strings.TrimPrefix(err.Error(), "hujson: ")
		_, _ = fmt.Sscanf(text, "line %d, column %d:", &e.Line, &e.Column)
		return nil, e
	}
	return fromJSON(&v), nil
}

func fromJSON(v *hujson.Value) *Node {
	n := &Node{Start: v.StartOffset, End: v.EndOffset}
	switch value := v.Value.(type) {
	case *hujson.Object:
		n.Kind = Map
		for i := range value.Members {
			m := &value.Members[i]
			name, _ := m.Name.Value.(hujson.Literal) // a key is always one
			start := m.Name.StartOffset
			value := fromJSON(&m.Value)
			n.Members = append(n.Members, Member{Name: textOf(name), Start: start, Key: start, Value: value})
		}
	case *hujson.Array:
		n.Kind = List
		for i := range value.Elements {
			n.Items = append(n.Items, fromJSON(&value.Elements[i]))
		}
	case hujson.Literal:
		if value.Kind() == '"' {
			n.Kind = Text
			n.Text = textOf(value)
			break
		}
		n.Kind = Other
		n.Text = string(value)
	}
	return n
}

// textOf is the text of a literal. Clients keep conversations in these files: most of 19 MB are texts without
// an escape, which need no decoder.
func textOf(of hujson.Literal) string {
	inside := of[1 : len(of)-1]
	if bytes.IndexByte(inside, '\\') < 0 && utf8.Valid(inside) {
		return string(inside)
	}
	return of.String()
}
