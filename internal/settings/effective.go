// SPDX-License-Identifier: Apache-2.0

package settings

import "fmt"

// Effective is a setting with its value, and the place that has set it.
type Effective struct {
	Row      *Row
	Texts    []string // one, or those of a list; none if there is no value
	Pattern  string   // of the table [server."PATTERN"], or ""
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

// OfServers returns the values in all tables [server."PATTERN"], in the order of the files.
func (c *FileSettings) OfServers() (all []Effective) {
	for _, v := range c.values {
		if v.pattern == "" {
			continue
		}
		all = append(all, Effective{
			Row: findRow(v.key), Texts: v.Texts, Pattern: v.pattern, File: v.File, Line: v.Line,
		})
	}
	return all
}
