// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/clientconfig"
	"github.com/mcpscope/mcpscope/internal/clientconfig/wrapping"
	"github.com/mcpscope/mcpscope/internal/name"
	"github.com/mcpscope/mcpscope/internal/show"
)

// rewriting is one call of wrap or unwrap: plan, show, ask, write.
type rewriting struct {
	choice
	io     cli.Stdio
	verb   string
	runner []string // to wrap with; nil unwraps
}

const noConfiguration = "no client configuration found in the home or working directory, or above it"

func (r *rewriting) run(operands []string) int {
	all, err := clientconfig.Find(operands)
	if err != nil {
		return r.io.Cannot(r.verb, err)
	}
	status := complain(r.io, all)
	if missing := r.unknown(all); missing != "" {
		return r.io.Cannot(r.verb, fmt.Errorf("there is no server %q", missing))
	}
	var plan []clientconfig.Change
	for _, c := range all {
		if c.Err != nil {
			continue
		}
		change := r.plan(c)
		status = max(status, r.show(change))
		if change.Count() > 0 {
			plan = append(plan, change)
		}
	}
	if len(all) == 0 {
		fmt.Fprintln(r.io.Out, noConfiguration)
	}
	switch {
	case len(plan) == 0:
		fmt.Fprintf(r.io.Out, "nothing to %s\n", r.verb)
		return status
	case !r.yes && !r.io.Confirmed(fmt.Sprintf("Change %s?", cli.Counted(len(plan), "file"))):
		return r.io.Unconfirmed(r.verb, "--yes")
	}
	for _, p := range plan {
		if err := r.write(p); err != nil {
			status = r.io.Cannot("change "+p.Where(), err)
		}
	}
	return status
}

// unknown is a name that was given and that no server has.
func (r *rewriting) unknown(all []*clientconfig.File) string {
	for _, name := range r.servers {
		if !slices.ContainsFunc(all, func(c *clientconfig.File) bool {
			return slices.ContainsFunc(c.Servers, func(s wrapping.Server) bool { return s.Name == name })
		}) {
			return name
		}
	}
	return ""
}

func (r *rewriting) plan(c *clientconfig.File) clientconfig.Change {
	if r.runner == nil {
		return c.Unwrap(r.wants)
	}
	return c.Wrap(r.runner, r.wants)
}

// show prints what will change, and why servers stay as they are. One that can't be unwrapped is a failure:
// its client still needs mcpscope.
func (r *rewriting) show(p clientconfig.Change) int {
	status := cli.ExitOK
	if !slices.ContainsFunc(p.File.Servers, func(s wrapping.Server) bool { return r.wants(s.Name) }) {
		return status
	}
	out := r.io.Out
	fmt.Fprintf(out, "%s (%s)\n", p.Where(), p.ClientTitle("a file"))
	for i := range p.File.Servers {
		s := &p.Change.Servers[i]
		if !r.wants(s.Name) {
			continue
		}
		title := cli.OneLine(show.Fit(s.Name, 64))
		if !p.Changed[i] {
			fmt.Fprintf(out, "  %s: %s\n", title, stateText(*s))
			switch {
			case r.runner == nil && p.File.Servers[i].State == wrapping.Wrapped:
				status = r.io.Cannot(fmt.Sprintf("unwrap %q in %s", s.Name, p.Where()), errors.New(s.Reason))
			case r.runner != nil && s.State == wrapping.NotEditable && s.Reason == clientconfig.NoYAML:
				for _, line := range s.ByHand(r.runner) {
					fmt.Fprintf(out, "      %s\n", cli.OneLine(line))
				}
			}
			continue
		}
		program, arguments := clientconfig.WithoutArguments(s.Own()), len(s.Own())-1
		own := fmt.Sprintf("%s (%s)", program, cli.Counted(arguments, "argument"))
		before, after := commandLine(s.Argv[:len(s.Argv)-len(s.Own())]), ""
		if r.runner != nil {
			after = commandLine(s.Prefix(r.runner))
		}
		fmt.Fprintf(out, "  %s:\n  - %s%s\n  + %s%s\n", title, before, own, after, own)
		if r.runner != nil && name.OtherContainer(s.Own()) != "" {
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

func (r *rewriting) write(p clientconfig.Change) error {
	backup, err := p.Write()
	if err != nil {
		return err
	}
	text := fmt.Sprintf("%sped %s in %s", r.verb, cli.Counted(p.Count(), "server"), p.Where())
	if backup != "" {
		text += fmt.Sprintf(" (backup: %s)", cli.OneLine(backup))
	}
	text = strings.ToUpper(text[:1]) + text[1:]
	fmt.Fprintf(r.io.Out, "%s. Restart %s to use it.\n", text, p.ClientTitle("the client"))
	return nil
}

// choice says which servers are changed, and whether without a question.
type choice struct {
	servers []string
	yes     bool
}

func (f *choice) wants(server string) bool {
	return len(f.servers) == 0 || slices.Contains(f.servers, server)
}
