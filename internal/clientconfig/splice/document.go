// SPDX-License-Identifier: Apache-2.0

// Package splice finds values in configuration files, and replaces them without a change to any other byte:
// comments, order, quoting, indentation and line ends are the work of a person.
//
// A value of YAML can have a place that cannot be edited: a text of several lines, or one that an anchor
// makes part of other values. The package does no I/O, and knows no meaning of values.
package splice

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"
)

// A Format is how a file is written.
type Format string

// The formats. JSON is with comments and trailing commas, for which client takes them is not ours to judge.
const (
	JSON Format = "JSON"
	TOML Format = "TOML"
	YAML Format = "YAML"
)

// A Kind is the type of a value.
type Kind int

// The kinds of values.
const (
	Map Kind = iota + 1
	List
	Text
	Other // a number, a truth, nothing, a date, an alias
)

// A Node is a value and where it is.
type Node struct {
	Kind    Kind
	Text    string // what a Text says; what an Other is written like
	Start   int
	End     int
	Block   bool // a table of TOML, or a map or list of YAML, whose members or items have a line each
	Fixed   bool // its place cannot be edited
	Members []Member
	Items   []*Node
}

// A Member is an entry of a map.
type Member struct {
	Name  string
	Start int // of the key, and of the dots before it
	Key   int // where the key's last part begins
	Value *Node
}

// Get returns the value of the first member of that name, or nil.
func (n *Node) Get(name string) *Node {
	i := n.index(name)
	if i < 0 {
		return nil
	}
	return n.Members[i].Value
}

func (n *Node) index(name string) int {
	for i, m := range n.Members {
		if m.Name == name {
			return i
		}
	}
	return -1
}

// Repeated finds a key that a map of the tree has twice: clients differ in which value they take.
func (n *Node) Repeated() (key string, found bool) {
	seen := map[string]bool{}
	for _, m := range n.Members {
		if seen[m.Name] {
			return m.Name, true
		}
		seen[m.Name] = true
		if key, found := m.Value.Repeated(); found {
			return key, true
		}
	}
	for _, item := range n.Items {
		if key, found := item.Repeated(); found {
			return key, true
		}
	}
	return "", false
}

// A Document is a file that could be read.
type Document struct {
	Format Format
	Data   []byte
	Root   *Node
	// Obstacle is why nothing in the file can be edited, or "".
	Obstacle string
}

// A SyntaxError is where a file is malformed.
type SyntaxError struct {
	Line, Column int
	Text         string
	format       Format
}

// Error returns the position and the text, which quotes nothing of the file.
func (e *SyntaxError) Error() string {
	if e.Line == 0 {
		return e.Text
	}
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Text)
}

// malformed leaves out what the parser says: it quotes the file, and that may be a secret.
func malformed(f Format) *SyntaxError { return &SyntaxError{Text: "not valid " + string(f), format: f} }

const bom = "\uFEFF"

// Parse reads a file. The error is a [SyntaxError].
func Parse(format Format, data []byte) (d *Document, err error) {
	if !utf8.Valid(data) {
		return nil, &SyntaxError{Text: "not UTF-8"}
	}
	// A parser that panics has met a malformed file, whatever it thinks.
	defer func() {
		if recover() != nil {
			d = nil
			err = &SyntaxError{Text: "malformed"}
		}
	}()
	d = &Document{Format: format, Data: data}
	if bytes.HasPrefix(data, []byte(bom)) {
		data = append([]byte("   "), data[len(bom):]...) // as long, so that positions are those in the file
	}
	switch {
	case len(bytes.TrimSpace(data)) == 0:
		d.Root = &Node{Kind: Map}
	case format == JSON:
		d.Root, err = parseJSON(data)
	case format == TOML:
		d.Root, err = parseTOML(data)
	case format == YAML:
		d.Root, d.Obstacle, err = parseYAML(d.Data)
	}
	e, isMalformed := errors.AsType[*SyntaxError](err)
	if !isMalformed {
		return d, err
	}
	e.atEnd(data)
	if e.Line == 1 && bytes.HasPrefix(d.Data, []byte(bom)) {
		e.Column -= len(bom)
	}
	return d, err
}

// Raw is how a text is written.
func (d *Document) Raw(n *Node) string { return string(d.Data[n.Start:n.End]) }

// Line returns the line in which a value begins, from 1.
func (d *Document) Line(n *Node) int { return 1 + bytes.Count(d.Data[:n.Start], []byte("\n")) }
