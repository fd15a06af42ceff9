// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/mcpscope/mcpscope/internal/glob"
	"github.com/mcpscope/mcpscope/internal/similar"
)

// FileValue is a setting in a file.
type FileValue struct {
	Texts   []string // one, or those of a list
	File    string
	Line    int
	pattern string // of server names; "" for all
	client  string // of [client.NAME], or ""
	key     string
}

// FileProblem is a mistake in a file. Text may contain any bytes of the file.
type FileProblem struct {
	File string
	Line int // 0 for the file itself
	Text string
}

func (p FileProblem) Error() string {
	if p.Line == 0 {
		return p.File + ": " + p.Text
	}
	return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Text)
}

// FileSettings are the settings of all files.
type FileSettings struct {
	Problems []FileProblem
	Clients  []ClientFile
	values   []FileValue // in the order of the files
}

// ParseFiles reads the files in the order of their priority, the highest last.
func ParseFiles(places []FilePlace) *FileSettings {
	c := &FileSettings{}
	for _, p := range places {
		text, err := p.read()
		if err != nil {
			c.Problems = append(c.Problems, FileProblem{File: p.Path, Text: err.Error()})
		}
		if text != nil {
			c.parse(p.Path, text)
		}
	}
	c.dropUnnamedFiles()
	return c
}

// The tables of a file.
const (
	defaults = "defaults"
	servers  = "server"
	clients  = "client"
)

// tables is the list of them for an error.
const tables = `[defaults], [server."NAME"] and [client.NAME]`

// parse reads all valid values of a file, or none if the file is not TOML. The decoder of the library says
// whether it is: the parser of single expressions does not know what may be defined only once. The decoder
// does not report the lines of values, so they are read by the parser.
func (c *FileSettings) parse(file string, text []byte) {
	var values map[string]any
	if err := toml.Unmarshal(text, &values); err != nil {
		c.addMalformed(file, err)
		return
	}
	r := fileReader{settings: c, file: file}
	for r.parser.Reset(text); r.parser.NextExpression(); {
		r.read(r.parser.Expression())
	}
}

func (c *FileSettings) addMalformed(file string, err error) {
	line := 1
	if malformed, ok := errors.AsType[*toml.DecodeError](err); ok {
		line, _ = malformed.Position()
	}
	reason := strings.TrimPrefix(err.Error(), "toml: ")
	c.Problems = append(c.Problems, FileProblem{file, line, "not TOML, so the file is ignored: " + reason})
}

// fileReader reads the expressions of one file.
type fileReader struct {
	settings *FileSettings
	file     string
	parser   unstable.Parser
	section  []string // the table that the present expression is in
	// isUnknown: the table is none of ours. Only the first mistake in it is reported.
	isUnknown bool
}

func (r *fileReader) read(e *unstable.Node) {
	switch e.Kind {
	case unstable.Table, unstable.ArrayTable:
		keys, line := r.keysOf(e)
		r.section = keys
		known := []string{defaults, servers, clients}
		r.isUnknown = e.Kind == unstable.ArrayTable || len(keys) > 2 || !slices.Contains(known, keys[0])
		if r.isUnknown {
			const text = "unknown table [%s]; tables are %s"
			r.addProblem(line, fmt.Errorf(text, strings.Join(keys, "."), tables))
		}
	case unstable.KeyValue:
		if !r.isUnknown {
			r.readValue(r.section, e)
		}
	}
}

// readValue reads a value, or those of an inline table, below the path of a table.
func (r *fileReader) readValue(above []string, e *unstable.Node) {
	keys, line := r.keysOf(e)
	path := slices.Concat(above, keys)
	value := e.Value()
	if value.Kind == unstable.InlineTable && isTable(path) {
		for it := value.Children(); it.Next(); {
			r.readValue(path, it.Node())
		}
		return
	}
	if err := r.settings.set(path, value, FileValue{File: r.file, Line: line}); err != nil {
		r.addProblem(line, err)
	}
}

// isTable reports whether a table is at a path, or the names of tables are: server, and server.NAME.
func isTable(path []string) bool {
	switch path[0] {
	case defaults:
		return len(path) == 1
	case servers, clients:
		return len(path) <= 2
	}
	return false
}

// keysOf returns the parts of a key, and its line.
func (r *fileReader) keysOf(e *unstable.Node) (keys []string, line int) {
	for it := e.Key(); it.Next(); {
		if line == 0 {
			line = r.parser.Shape(it.Node().Raw).Start.Line
		}
		keys = append(keys, string(it.Node().Data))
	}
	return keys, line
}

func (r *fileReader) addProblem(line int, err error) {
	r.settings.Problems = append(r.settings.Problems, FileProblem{r.file, line, err.Error()})
}

// set adds one value by its path: defaults.KEY, server.PATTERN.KEY or client.NAME.KEY.
func (c *FileSettings) set(keys []string, value *unstable.Node, v FileValue) error {
	last := len(keys) - 1
	v.key = keys[last]
	switch {
	case last == 1 && keys[0] == defaults:
	case last == 2 && keys[0] == servers && keys[1] != "":
		v.pattern = keys[1]
	case last == 2 && keys[0] == clients && keys[1] != "":
		if err := checkClient(keys[1]); err != nil {
			return err
		}
		if r := findRow(v.key); r == nil || !r.Client {
			return c.setClient(keys[1], v, value)
		}
		v.client = keys[1]
	default:
		return fmt.Errorf("%q belongs in one of %s", v.key, tables)
	}
	r := findRow(v.key)
	switch {
	case r == nil || r.Where&File == 0:
		return unknownKey(v.key)
	case r.Whole && v.pattern != "":
		return fmt.Errorf("%s belongs in [%s]: it is for gateways", v.key, defaults)
	}
	texts, err := r.texts(value)
	if err != nil {
		return err
	}
	for _, text := range texts {
		if err := r.set(Defaults(), text); err != nil {
			return fmt.Errorf("%s: %w", v.key, err)
		}
	}
	v.Texts = texts
	c.values = append(c.values, v)
	return nil
}

// unknownKey is the error about a key, with those that may be meant.
func unknownKey(key string) error {
	var keys []string
	for i := range table {
		if table[i].Where&File != 0 {
			keys = append(keys, table[i].Name)
		}
	}
	return fmt.Errorf("unknown key %q%s", key, similar.Meant(similar.Among(key, keys)))
}

// findRow returns nil for an unknown name.
func findRow(name string) *Row {
	for i := range table {
		if table[i].Name == name {
			return &table[i]
		}
	}
	return nil
}

// texts returns the values of a key, or an error about their type.
func (r *Row) texts(value *unstable.Node) (texts []string, err error) {
	switch {
	case r.List:
		return list(r.Name, value)
	case r.Switch() && value.Kind != unstable.Bool:
		return nil, fmt.Errorf("%s is true or false, without quotes", r.Name)
	case !r.Switch() && value.Kind != unstable.String && value.Kind != unstable.Integer: // 0 is a duration
		return nil, fmt.Errorf("%s is text in quotes", r.Name)
	}
	return []string{string(value.Data)}, nil
}

// list returns the texts of a list.
func list(key string, value *unstable.Node) (texts []string, err error) {
	isList := value.Kind == unstable.Array
	for it := value.Children(); isList && it.Next(); {
		isList = it.Node().Kind == unstable.String
		texts = append(texts, string(it.Node().Data))
	}
	if !isList {
		return nil, fmt.Errorf(`%s is a list of texts in quotes: ["…"]`, key)
	}
	return texts, nil
}

// For returns the settings of a server. The most specific section wins, and of equally specific sections the
// last.
func (c *FileSettings) For(server string) map[string]FileValue {
	best := map[string]FileValue{}
	for _, v := range c.values {
		if v.client != "" || v.pattern != "" && !glob.Matches(v.pattern, server) {
			continue
		}
		if b, some := best[v.key]; !some || exactness(v.pattern) >= exactness(b.pattern) {
			best[v.key] = v
		}
	}
	return best
}

// AddClient adds what [client.NAME] has for all servers of a client. A table of servers is more specific, and
// [defaults] is less.
func (c *FileSettings) AddClient(to map[string]FileValue, client string) {
	for _, v := range c.values {
		isOfServers := to[v.key].pattern != ""
		if v.client == client && client != "" && !isOfServers {
			to[v.key] = v
		}
	}
}

// ForBelowGateway is For without what a server below a gateway cannot have: it ends with its gateway.
func (c *FileSettings) ForBelowGateway(server string) map[string]FileValue {
	values := c.For(server)
	delete(values, "on-client-death")
	return values
}

// exactness orders patterns: [defaults] first, then patterns by their number of characters without wildcards,
// then names.
func exactness(pattern string) int {
	wildcards := strings.Count(pattern, "*") + strings.Count(pattern, "?")
	switch {
	case pattern == "":
		return -1
	case wildcards == 0:
		return maxText
	}
	return len(pattern) - wildcards
}
