// SPDX-License-Identifier: Apache-2.0

//go:build linux

package settings

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// The tables of a file.
const (
	defaults = "defaults"
	servers  = "server"
)

// maxProblems of one file are enough to begin with.
const maxProblems = 100

// reader is one file. It goes by the library's parser and not by its decoder, for that
// forgets on which line a value was.
type reader struct {
	file     string
	text     []byte
	keys     Schema
	seq      int
	sections map[string]map[string]FileValue
	problems []FileProblem

	parser unstable.Parser
	table  []string        // that we are in
	opened map[string]bool // tables that had a header
	line   int             // of offset
	offset int
}

// read returns an error if the text is no TOML.
func (r *reader) read() *FileProblem {
	r.line, r.opened = 1, map[string]bool{}
	r.parser.Reset(r.text)
	for r.parser.NextExpression() {
		switch e := r.parser.Expression(); e.Kind {
		case unstable.Table, unstable.ArrayTable:
			r.header(e)
		case unstable.KeyValue:
			r.value(r.table, e)
		}
	}
	var broken *unstable.ParserError
	switch err := r.parser.Error(); {
	case errors.As(err, &broken):
		return &FileProblem{r.file, r.lineOf(r.parser.Range(broken.Highlight).Offset), "no TOML, so the file is ignored: " + clipped(broken.Message)}
	case err != nil:
		return &FileProblem{r.file, r.line, "no TOML, so the file is ignored: " + err.Error()}
	}
	return nil
}

// header opens a table. What is in one that we don't know is passed over: one word about
// it is enough.
func (r *reader) header(e *unstable.Node) {
	keys, line := r.path(nil, e)
	r.table = keys
	switch {
	case e.Kind == unstable.ArrayTable:
		r.complain(line, "[[%s]] is a list of tables; a table is [%[1]s]", dotted(keys))
		r.table = nil
	case !r.knows(keys, line):
		r.table = nil
	case r.opened[dotted(keys)]:
		r.complain(line, "[%s] is there twice", dotted(keys)) // TOML forbids it; both are read
	}
	r.opened[dotted(keys)] = true
	if r.table == nil {
		r.table = []string{} // unlike the nil of the top
	}
}

// knows complains of a table that means nothing.
func (r *reader) knows(table []string, line int) bool {
	switch {
	case table[0] != defaults && table[0] != servers:
		r.complain(line, "unknown table %s%s", quoted(table[0]), guess(table[0], []string{defaults, servers}))
	case table[0] == defaults && len(table) > 1, len(table) > 2:
		r.complain(line, "unknown table [%s]; a name with a dot is quoted: [%s.%q]", dotted(table), servers, strings.Join(table[1:], "."))
	case len(table) == 2 && badPattern(table[1]):
		r.complain(line, "%s is no pattern", quoted(table[1]))
	default:
		return true
	}
	return false
}

func badPattern(s string) bool {
	_, err := path.Match(s, "")
	return err != nil || s == "" || len(s) >= maxText
}

// value takes a key, wherever TOML lets one write it: server.git.eof-grace = …, or
// server = { git = { … } }.
func (r *reader) value(table []string, e *unstable.Node) {
	if table != nil && len(table) == 0 {
		return // of a table that we don't know
	}
	keys, line := r.path(table, e)
	v := e.Value()
	if v.Kind == unstable.InlineTable {
		if len(keys) > 2 || !r.knows(keys, line) {
			if len(keys) > 2 {
				r.complain(line, "%s is no table", quoted(keys[len(keys)-1]))
			}
			return
		}
		for it := v.Children(); it.Next(); {
			if it.Node().Kind == unstable.KeyValue {
				r.value(keys, it.Node())
			}
		}
		return
	}
	pattern, key, ok := r.split(keys, line)
	if ok {
		r.set(pattern, key, v, line)
	}
}

// split tells a section from the key in it.
func (r *reader) split(keys []string, line int) (pattern, key string, ok bool) {
	last := len(keys) - 1
	key = keys[last]
	switch {
	case last == 0:
		_, known := r.keys[key]
		switch {
		case known:
			r.complain(line, "%s belongs in [%s] or [%s.\"NAME\"]", key, defaults, servers)
		default:
			r.complain(line, "unknown key %s%s", quoted(key), guess(key, r.keys.names()))
		}
		return "", "", false
	case !r.knows(keys[:last], line):
		return "", "", false
	case keys[0] == servers && last == 1:
		r.complain(line, "%s belongs in [%s.\"NAME\"]: which server?", quoted(key), servers)
		return "", "", false
	case keys[0] == servers:
		pattern = keys[1]
	}
	return pattern, key, true
}

// set checks one value.
func (r *reader) set(pattern, key string, v *unstable.Node, line int) {
	k, known := r.keys[key]
	if !known {
		r.complain(line, "unknown key %s%s", quoted(key), guess(key, r.keys.names()))
		return
	}
	text := string(v.Data)
	switch {
	case k.Bool && v.Kind != unstable.Bool:
		r.complain(line, "%s is true or false, without quotes", key)
		return
	case !k.Bool && v.Kind != unstable.String && v.Kind != unstable.Integer: // 0 is a duration
		r.complain(line, "%s is text in quotes", key)
		return
	}
	if err := k.Check(text); err != nil {
		r.complain(line, "%s: %s", key, clipped(err.Error()))
		return
	}
	section := "[" + defaults + "]"
	if pattern != "" {
		section = fmt.Sprintf("[%s.%q]", servers, pattern)
	}
	values := r.sections[pattern]
	if values == nil {
		values = map[string]FileValue{}
		r.sections[pattern] = values
	}
	if old, twice := values[key]; twice {
		r.complain(line, "%s is set in line %d already", key, old.Line)
		return
	}
	r.seq++
	values[key] = FileValue{Text: text, File: r.file, Line: line, Section: section, seq: r.seq}
}

// path is the whole name of a table or key, and the line it is on.
func (r *reader) path(table []string, e *unstable.Node) (keys []string, line int) {
	keys = slices.Clone(table)
	for it := e.Key(); it.Next(); {
		if line == 0 {
			line = r.lineOf(it.Node().Raw.Offset)
		}
		keys = append(keys, string(it.Node().Data))
	}
	return keys, line
}

// lineOf counts on from the last line that was asked for: offsets grow.
func (r *reader) lineOf(offset uint32) int {
	at := int(offset)
	if at < r.offset {
		r.line, r.offset = 1, 0
	}
	r.line += bytes.Count(r.text[r.offset:at], []byte{'\n'})
	r.offset = at
	return r.line
}

func (r *reader) complain(line int, format string, args ...any) {
	if len(r.problems) < maxProblems {
		r.problems = append(r.problems, FileProblem{r.file, line, fmt.Sprintf(format, args...)})
	}
}
