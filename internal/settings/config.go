// SPDX-License-Identifier: Apache-2.0

//go:build linux

package settings

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// Schema are the settings that there are.
type Schema map[string]SchemaKey

// A Key is one setting.
type SchemaKey struct {
	Bool  bool               // true or false; otherwise text
	Check func(string) error // what is wrong with a text
}

// A Value is what a setting is to be.
type FileValue struct {
	Text    string
	File    string
	Line    int
	Section string // the table, as a file has it
	seq     int    // grows from file to file and from line to line
}

// A Problem is why something in a file does not count. Its text may hold anything that
// the file does.
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

// A Config is the content of all files.
type FileSettings struct {
	Files    []string // that were read
	Problems []FileProblem
	sections map[string]map[string]FileValue // by pattern; that of [defaults] is ""
	seq      int
}

// ParseFiles takes the files in turn, the last of which counts most. keys is asked only if there is
// one: on most hosts there is none, and this is on the way of each start.
func ParseFiles(places []FilePlace, keys func() Schema) *FileSettings {
	c := &FileSettings{}
	var known Schema
	for _, p := range places {
		text, err := p.read()
		if err != nil {
			c.Problems = append(c.Problems, FileProblem{File: p.Path, Text: err.Error()})
		}
		if text == nil {
			continue
		}
		if known == nil {
			known = keys()
		}
		c.add(p.Path, text, known)
	}
	return c
}

// add reads one file. One that is no TOML counts for nothing: where its mistake begins
// is not where its author's was.
func (c *FileSettings) add(file string, text []byte, keys Schema) {
	c.Files = append(c.Files, file)
	f := &reader{file: file, text: text, keys: keys, seq: c.seq, sections: map[string]map[string]FileValue{}}
	if err := f.read(); err != nil {
		c.Problems = append(c.Problems, *err)
		return
	}
	c.Problems, c.seq = append(c.Problems, f.problems...), f.seq
	if c.sections == nil {
		c.sections = map[string]map[string]FileValue{}
	}
	for pattern, values := range f.sections {
		if c.sections[pattern] == nil {
			c.sections[pattern] = map[string]FileValue{}
		}
		for key, v := range values {
			c.sections[pattern][key] = v
		}
	}
}

// For returns what a server's settings are to be: of the sections that mean it the most
// exact one counts, of equally exact ones the later.
func (c *FileSettings) For(server string) map[string]FileValue {
	type found struct {
		pattern string
		FileValue
	}
	best := map[string]found{}
	for pattern, values := range c.sections {
		if pattern != "" && !matches(pattern, server) {
			continue
		}
		for key, v := range values {
			b, some := best[key]
			if d := exactness(pattern) - exactness(b.pattern); !some || d > 0 || d == 0 && v.seq > b.seq {
				best[key] = found{pattern, v}
			}
		}
	}
	all := make(map[string]FileValue, len(best))
	for key, b := range best {
		all[key] = b.FileValue
	}
	return all
}

// matches: to a name a slash is nothing special.
func matches(pattern, server string) bool {
	flat := strings.NewReplacer("/", "\x00")
	ok, _ := path.Match(flat.Replace(pattern), flat.Replace(server)) // it was checked
	return ok
}

const wildcards = `*?[\`

// exactness orders patterns: a name is more exact than anything with wildcards, which is more exact
// the more else there is in it; [defaults] is the least.
func exactness(pattern string) int {
	switch {
	case pattern == "":
		return -1
	case !strings.ContainsAny(pattern, wildcards):
		return maxText
	}
	return len(pattern) - strings.Count(pattern, "*") - strings.Count(pattern, "?")
}

// names are sorted, for whoever guesses among them.
func (k Schema) names() []string {
	var all []string
	for name := range k {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}
