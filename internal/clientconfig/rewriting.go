// SPDX-License-Identifier: Apache-2.0

package clientconfig

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/clientconfig/wrapping"
	"github.com/mcpscope/mcpscope/internal/name"
	"github.com/mcpscope/mcpscope/internal/show"
)

// Rewriting is one call of wrap or unwrap: plan, show, ask, write.
type Rewriting struct {
	Choice
	IO     cli.Stdio
	Verb   string
	Runner []string // to wrap with; nil unwraps
}

// planned is a file with its change.
type planned struct {
	*configured
	change *wrapping.Change
}

func (r *Rewriting) Run(operands []string) int {
	all, err := Configurations(operands)
	if err != nil {
		return r.IO.Cannot(r.Verb, err)
	}
	status := complain(r.IO, all)
	if missing := r.unknown(all); missing != "" {
		return r.IO.Cannot(r.Verb, fmt.Errorf("there is no server %q", missing))
	}
	var plan []planned
	for _, c := range all {
		if c.Err != nil {
			continue
		}
		p := planned{c, r.edit(c)}
		status = max(status, r.show(p))
		if p.change.Count() > 0 {
			plan = append(plan, p)
		}
	}
	if len(all) == 0 {
		fmt.Fprintln(r.IO.Out, noConfiguration)
	}
	switch {
	case len(plan) == 0:
		fmt.Fprintf(r.IO.Out, "nothing to %s\n", r.Verb)
		return status
	case !r.Yes && !r.IO.Confirmed(fmt.Sprintf("Change %s?", cli.Counted(len(plan), "file"))):
		return r.IO.Unconfirmed(r.Verb, "--yes")
	}
	for _, p := range plan {
		if err := r.write(p); err != nil {
			status = r.IO.Cannot("change "+p.Where(), err)
		}
	}
	return status
}

// unknown is a name that was given and that no server has.
func (r *Rewriting) unknown(all []*configured) string {
	for _, name := range r.Servers {
		if !slices.ContainsFunc(all, func(c *configured) bool {
			return slices.ContainsFunc(c.Servers, func(s wrapping.Server) bool { return s.Name == name })
		}) {
			return name
		}
	}
	return ""
}

func (r *Rewriting) edit(c *configured) *wrapping.Change {
	if r.Runner == nil {
		return c.reader.Unwrap(c.document, c.file.Backup(), r.wants)
	}
	return c.reader.Wrap(c.document, c.file.Backup(), r.Runner, r.wants)
}

// show prints what will change, and why servers stay as they are. One that can't be unwrapped is a failure:
// its client still needs mcpscope.
func (r *Rewriting) show(p planned) int {
	status := cli.ExitOK
	if !slices.ContainsFunc(p.Servers, func(s wrapping.Server) bool { return r.wants(s.Name) }) {
		return status
	}
	out := r.IO.Out
	fmt.Fprintf(out, "%s (%s)\n", p.Where(), p.ClientTitle("a file"))
	for i := range p.Servers {
		s := &p.change.Servers[i]
		if !r.wants(s.Name) {
			continue
		}
		title := cli.OneLine(show.Fit(s.Name, 64))
		if !p.change.Changed[i] {
			fmt.Fprintf(out, "  %s: %s\n", title, stateText(*s))
			switch {
			case r.Runner == nil && p.Servers[i].State == wrapping.Wrapped:
				status = r.IO.Cannot(fmt.Sprintf("unwrap %q in %s", s.Name, p.Where()), errors.New(s.Reason))
			case r.Runner != nil && s.State == wrapping.NotEditable && s.Reason == noYAML:
				for _, line := range s.ByHand(r.Runner) {
					fmt.Fprintf(out, "      %s\n", cli.OneLine(line))
				}
			}
			continue
		}
		own := fmt.Sprintf("%s (%s)", WithoutArguments(s.Own()), cli.Counted(len(s.Own())-1, "argument"))
		before, after := commandLine(s.Argv[:len(s.Argv)-len(s.Own())]), ""
		if r.Runner != nil {
			after = commandLine(s.Prefix(r.Runner))
		}
		fmt.Fprintf(out, "  %s:\n  - %s%s\n  + %s%s\n", title, before, own, after, own)
		if r.Runner != nil && name.OtherContainer(s.Own()) != "" {
			fmt.Fprint(out, "  warning: the server runs in an existing container; "+
				"its left-over processes there stay\n")
		}
	}
	return status
}

// commandLine prints our prefix. It contains no secrets, but a name from the file.
func commandLine(words []string) string {
	line := ""
	for _, w := range words {
		if strings.ContainsAny(w, " \t'\"") || w == "" {
			w = fmt.Sprintf("%q", w)
		}
		line += cli.OneLine(w) + " "
	}
	return line
}

func (r *Rewriting) write(p planned) error {
	if err := p.file.Replace(p.change.Data, p.change.Backup); err != nil {
		return err
	}
	text := fmt.Sprintf("%sped %s in %s", r.Verb, cli.Counted(p.change.Count(), "server"), p.Where())
	if !bytes.Equal(p.change.Data, p.change.Backup) {
		text += fmt.Sprintf(" (backup: %s)", cli.OneLine(p.file.BackupPath()))
	}
	text = strings.ToUpper(text[:1]) + text[1:]
	fmt.Fprintf(r.IO.Out, "%s. Restart %s to use it.\n", text, p.ClientTitle("the client"))
	return nil
}

// Choice says which servers are changed, and whether without a question.
type Choice struct {
	Servers []string
	Yes     bool
}

func (f *Choice) wants(server string) bool {
	return len(f.Servers) == 0 || slices.Contains(f.Servers, server)
}
