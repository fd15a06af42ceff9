// SPDX-License-Identifier: Apache-2.0

//go:build linux

package settings

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// FileValue is what a file says of a setting.
type FileValue struct {
	Text    string
	File    string
	Line    int
	pattern string // of the servers that are meant; "" for all
	key     string
}

// FileProblem is why something in a file does not count. Its text may hold anything that the file does.
type FileProblem struct {
	File string `json:"file"`
	Line int    `json:"line,omitempty"` // 0 for the file itself
	Text string `json:"text"`
}

func (p FileProblem) Error() string {
	if p.Line == 0 {
		return p.File + ": " + p.Text
	}
	return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Text)
}

// FileSettings is the content of all files.
type FileSettings struct {
	Files    []string // that were read
	Problems []FileProblem
	values   []FileValue // in their order
}

// ParseFiles takes the files in turn, the last of which counts most.
func ParseFiles(places []FilePlace) *FileSettings {
	c := &FileSettings{}
	for _, p := range places {
		text, err := p.read()
		if err != nil {
			c.Problems = append(c.Problems, FileProblem{File: p.Path, Text: err.Error()})
		}
		if text != nil {
			c.Files = append(c.Files, p.Path)
			c.parse(p.Path, text)
		}
	}
	return c
}

// The tables of a file.
const (
	defaults = "defaults"
	servers  = "server"
)

// parse takes what is sound of a file; of one that is no TOML nothing. It goes by the library's parser and not by
// its decoder, which forgets on which line a value was.
func (c *FileSettings) parse(file string, text []byte) {
	var (
		parser  unstable.Parser
		section []string
		unknown bool // of which one problem is enough
	)
	lineOf := func(r unstable.Range) int { return parser.Shape(r).Start.Line }
	for parser.Reset(text); parser.NextExpression(); {
		continue
	}
	if broken, is := errors.AsType[*unstable.ParserError](parser.Error()); is {
		problem := FileProblem{file, lineOf(parser.Range(broken.Highlight)), "no TOML, so the file is ignored: " + broken.Message}
		c.Problems = append(c.Problems, problem)
		return
	}
	for parser.Reset(text); parser.NextExpression(); {
		e := parser.Expression()
		keys, line := []string(nil), 0
		for it := e.Key(); it.Next(); {
			if line == 0 {
				line = lineOf(it.Node().Raw)
			}
			keys = append(keys, string(it.Node().Data))
		}
		var err error
		switch e.Kind {
		case unstable.Table, unstable.ArrayTable:
			section = keys
			unknown = e.Kind == unstable.ArrayTable || len(keys) > 2 || keys[0] != defaults && keys[0] != servers
			if unknown {
				err = fmt.Errorf("unknown table [%s]; tables are [%s] and [%s.%q]", strings.Join(keys, "."), defaults, servers, "NAME")
			}
		case unstable.KeyValue:
			if unknown {
				continue
			}
			err = c.set(append(section[:len(section):len(section)], keys...), e.Value(), FileValue{File: file, Line: line})
		}
		if err != nil {
			c.Problems = append(c.Problems, FileProblem{file, line, err.Error()})
		}
	}
}

// set takes one value, by its path: defaults.KEY, or server.PATTERN.KEY.
func (c *FileSettings) set(keys []string, value *unstable.Node, v FileValue) error {
	last := len(keys) - 1
	v.key = keys[last]
	switch {
	case last == 1 && keys[0] == defaults:
	case last == 2 && keys[0] == servers:
		v.pattern = keys[1]
		if _, err := path.Match(v.pattern, ""); err != nil || v.pattern == "" {
			return fmt.Errorf("%q is no pattern", v.pattern)
		}
	default:
		return fmt.Errorf("%q belongs in [%s] or [%s.%q]", v.key, defaults, servers, "NAME")
	}
	r := find(Run, v.key)
	v.Text = string(value.Data)
	switch {
	case r == nil || r.Where&File == 0 || r.Name != v.key:
		return fmt.Errorf("unknown key %q", v.key)
	case r.Switch() && value.Kind != unstable.Bool:
		return fmt.Errorf("%s is true or false, without quotes", v.key)
	case !r.Switch() && value.Kind != unstable.String && value.Kind != unstable.Integer: // 0 is a duration
		return fmt.Errorf("%s is text in quotes", v.key)
	}
	if err := r.set(Defaults(), v.Text); err != nil {
		return fmt.Errorf("%s: %w", v.key, err)
	}
	c.values = append(c.values, v)
	return nil
}

// For returns what a server's settings are to be: of the sections that mean it the most exact one counts, of
// equally exact ones the later.
func (c *FileSettings) For(server string) map[string]FileValue {
	best := map[string]FileValue{}
	for _, v := range c.values {
		if v.pattern != "" && !matches(v.pattern, server) {
			continue
		}
		if b, some := best[v.key]; !some || exactness(v.pattern) >= exactness(b.pattern) {
			best[v.key] = v
		}
	}
	return best
}

// matches: to a name a slash is nothing special.
func matches(pattern, server string) bool {
	flat := strings.NewReplacer("/", "\x00")
	ok, _ := path.Match(flat.Replace(pattern), flat.Replace(server)) // it was checked
	return ok
}

// exactness orders patterns: a name is more exact than anything with wildcards, which is more exact
// the more else there is in it; [defaults] is the least.
func exactness(pattern string) int {
	switch {
	case pattern == "":
		return -1
	case !strings.ContainsAny(pattern, `*?[\`):
		return maxText
	}
	return len(pattern) - strings.Count(pattern, "*") - strings.Count(pattern, "?")
}
