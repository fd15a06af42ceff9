// SPDX-License-Identifier: Apache-2.0

package splice

import (
	"bytes"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// text finds the end of a scalar, which the parser does not tell.
func (r *yamlReader) text(a *ast.StringNode) *Node {
	n := &Node{Kind: Text, Text: a.Value, Start: r.at(a.Token)}
	switch a.Token.Type {
	case token.SingleQuoteType:
		n.End = r.closing(n.Start, '\'')
	case token.DoubleQuoteType:
		n.End = r.closing(n.Start, '"')
	default:
		n.Plain = true
		if n.Text != "" && r.begins(n.Start, n.Text) {
			n.End = n.Start + len(n.Text)
		}
	}
	switch {
	case n.Start < 0 || n.End <= 0:
		n.Fixed = isElsewhere
	case bytes.ContainsAny(r.data[n.Start:n.End], "\r\n"):
		n.Fixed = isLines
	}
	return n
}

// closing is behind the quote that ends what begins at start, or 0.
func (r *yamlReader) closing(start int, quote byte) int {
	if !r.begins(start, string(quote)) {
		return 0
	}
	for i := start + 1; i < len(r.data); i++ {
		switch {
		case quote == '"' && r.data[i] == '\\':
			i++
		case r.data[i] == quote && quote == '\'' && i+1 < len(r.data) && r.data[i+1] == quote:
			i++
		case r.data[i] == quote:
			return i + 1
		}
	}
	return 0
}
