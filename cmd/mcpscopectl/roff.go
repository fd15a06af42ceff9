// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"strings"
)

// roff is a man page that is being written. Texts are those of helps: paragraphs, and blocks that
// begin with a blank and stay as they are.
type roff struct{ b strings.Builder }

func newPage(name, section, source string) *roff {
	r := &roff{}
	fmt.Fprintf(&r.b, ".TH %q %q \"\" %q \"mcpscope\"\n.nh\n.ad l\n", strings.ToUpper(name), section, source)
	return r
}

// head begins a section.
func (r *roff) head(title string) { fmt.Fprintf(&r.b, ".SH %s\n", title) }

// under begins a part of a section.
func (r *roff) under(title string) { fmt.Fprintf(&r.b, ".SS %s\n", escaped(title)) }

// text writes paragraphs.
func (r *roff) text(text string) {
	for paragraph := range strings.SplitSeq(strings.Trim(text, "\n"), "\n\n") {
		if strings.HasPrefix(paragraph, " ") || strings.Contains(paragraph, "\n ") {
			r.block(paragraph)
			continue
		}
		r.b.WriteString(".PP\n")
		for line := range strings.Lines(paragraph) {
			r.b.WriteString(escaped(strings.TrimRight(line, "\n")) + "\n")
		}
	}
}

// block writes lines as they are.
func (r *roff) block(text string) {
	r.b.WriteString(".PP\n.nf\n")
	for line := range strings.Lines(strings.Trim(text, "\n")) {
		r.b.WriteString(escaped(strings.TrimRight(line, "\n")) + "\n")
	}
	r.b.WriteString(".fi\n")
}

// item explains a term.
func (r *roff) item(term, text string) {
	fmt.Fprintf(&r.b, ".TP\n\\fB%s\\fR\n%s\n", escaped(term), escaped(text))
}

// escaped is a line without what roff would take for its own.
func escaped(line string) string {
	line = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`).Replace(line)
	if strings.HasPrefix(line, ".") {
		line = `\&` + line
	}
	return line
}
