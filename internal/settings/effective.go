// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mcpscope/mcpscope/internal/similar"
)

// Effective is a setting with its value, and the place that has set it.
type Effective struct {
	Row      *Row
	Texts    []string // one, or those of a list; none if there is no value
	Pattern  string   // of the table [server."PATTERN"], or ""
	Client   string   // of the table [client.NAME], or ""
	Variable string   // the environment variable that has set it, or ""
	File     string   // the file that has set it, or ""
	Line     int
}

// Source is the variable, FILE:LINE, or "default".
func (e *Effective) Source() string {
	switch {
	case e.Variable != "":
		return e.Variable
	case e.File != "":
		return fmt.Sprintf("%s:%d", e.File, e.Line)
	}
	return "default"
}

// Effective returns the settings that a server of that name gets without flags, in the order of the help. The
// problems are about variables.
func (c *FileSettings) Effective(
	server string, getenv func(string) string,
) (all []Effective, problems []error) {
	ofFiles := c.For(server)
	for _, r := range Rows(Run | Gateway) {
		if r.Where == 0 { // a flag alone
			continue
		}
		e := Effective{Row: r}
		if r.Default != "" {
			e.Texts = []string{r.Default}
		}
		value, isInFile := ofFiles[r.Name]
		if isInFile {
			e.Texts = value.Texts
			e.File = value.File
			e.Line = value.Line
		}
		variable := r.Variable()
		text := ""
		if variable != "" {
			text = getenv(variable)
		}
		if text != "" {
			e = Effective{Row: r, Texts: []string{text}, Variable: variable}
			if err := r.set(Defaults(), text); err != nil {
				problems = append(problems, fmt.Errorf("%s: %w", variable, err))
			}
		}
		all = append(all, e)
	}
	return all, problems
}

// A Section is a table [server."NAME"] of a file.
type Section struct {
	Name string
	File string
	Line int // of its first key
}

// Sections returns the tables for one server that have keys, in the order of the files. It leaves out
// patterns with wildcards, which are also for servers that come later.
func (c *FileSettings) Sections() (sections []Section) {
	for _, v := range c.values {
		isName := v.pattern != "" && !strings.ContainsAny(v.pattern, "*?")
		isSame := func(s Section) bool { return s.Name == v.pattern && s.File == v.File }
		if isName && !slices.ContainsFunc(sections, isSame) {
			sections = append(sections, Section{Name: v.pattern, File: v.File, Line: v.Line})
		}
	}
	return sections
}

// Unmatched returns a line for a section that is for none of the names, with those that may be meant, and
// "" for any other. A section of the system can be for servers of other users, so it needs such a name.
func (s Section) Unmatched(names []string) string {
	if slices.Contains(names, s.Name) {
		return ""
	}
	line, isMistyped := NoServer(s.Name, names)
	if s.File == System() && !isMistyped {
		return ""
	}
	return fmt.Sprintf("%s:%d: %s", s.File, s.Line, line)
}

// NoServer says that a name is none of the names of servers. One of these may be meant.
func NoServer(called string, names []string) (line string, isMistyped bool) {
	once := slices.Compact(slices.Sorted(slices.Values(names)))
	meant := similar.Among(called, once)
	const text = "no configured and no running server is called %q%s"
	return fmt.Sprintf(text, called, similar.Meant(meant)), len(meant) > 0
}

// OfServers returns the values in all tables [server."PATTERN"], and those for servers in [client.NAME], in
// the order of the files.
func (c *FileSettings) OfServers() (all []Effective) {
	for _, v := range c.values {
		if v.pattern == "" && v.client == "" {
			continue
		}
		all = append(all, Effective{
			Row: findRow(v.key), Texts: v.Texts,
			Pattern: v.pattern, Client: v.client,
			File: v.File, Line: v.Line,
		})
	}
	return all
}
