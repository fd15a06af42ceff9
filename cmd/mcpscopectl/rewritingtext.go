// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/clientconfig"
	"github.com/mcpscope/mcpscope/internal/clientconfig/wrapping"
	"github.com/mcpscope/mcpscope/internal/name"
	"github.com/mcpscope/mcpscope/internal/render"
)

// printPlan prints what will change, and why servers stay as they are. One that can't be unwrapped is a
// failure: its client still needs mcpscope.
func (r *rewriting) printPlan(p clientconfig.Change) int {
	status := cli.ExitOK
	hasTitle := false
	for i := range p.Servers {
		s := &p.Servers[i]
		if !r.isPrinted(s, p.Changed[i]) {
			continue
		}
		if !hasTitle {
			fmt.Fprintf(r.stdio.Out, "%s (%s)\n", p.File.Where(), p.File.ClientTitle("a file"))
			hasTitle = true
		}
		if p.Changed[i] {
			r.printChange(s, &p.After[i])
			continue
		}
		wasWrapped := p.File.Servers[i].IsWrapped()
		status = max(status, r.printUnchanged(p.File, s, wasWrapped))
	}
	return status
}

// isPrinted reports whether the plan has lines about a server. The diff of --dry-run shows one that changes,
// but has no warning.
func (r *rewriting) isPrinted(s *wrapping.Server, changes bool) bool {
	isInDiff := r.dryRun && changes
	return r.wants(s.Name) && (!isInDiff || r.warns(s))
}

// warns reports whether the server runs in an existing container.
func (r *rewriting) warns(s *wrapping.Server) bool {
	return r.runner != nil && name.OtherContainer(s.Own()) != ""
}

func titleOf(s *wrapping.Server) string { return cli.OneLine(render.Fit(s.Name, 64)) }

func (r *rewriting) printChange(before, after *wrapping.Server) {
	fmt.Fprintf(r.stdio.Out, "  %s:\n", titleOf(before))
	if !r.dryRun {
		own := ownText(before.Own())
		fmt.Fprintf(r.stdio.Out, "  - %s%s\n", commandLine(before.Prefix()), own)
		fmt.Fprintf(r.stdio.Out, "  + %s%s\n", commandLine(after.Prefix()), own)
	}
	if r.warns(before) {
		fmt.Fprint(r.stdio.Out, "  warning: the server runs in an existing container; "+
			"its left-over processes there stay\n")
	}
}

// ownText is a server's own command, with the number of its arguments.
func ownText(command []string) string {
	program := clientconfig.WithoutArguments(command)
	if program == command[0] { // otherwise it is shortened
		program = quoted(program)
	}
	return fmt.Sprintf("%s (%s)", program, cli.Counted(len(command)-1, "argument"))
}

// printUnchanged prints why a server stays as it is. It is a failure if a client still needs mcpscope after
// an unwrap, or if a person has named the server.
func (r *rewriting) printUnchanged(c *clientconfig.File, s *wrapping.Server, isWrapped bool) int {
	fmt.Fprintf(r.stdio.Out, "  %s: %s\n", titleOf(s), stateText(*s))
	unwraps := r.runner == nil
	if s.ByHand() && isWrapped == unwraps {
		for _, line := range c.Lines(s, r.runner) {
			fmt.Fprintf(r.stdio.Out, "      %s\n", cli.OneLine(line))
		}
	}
	isNamed := slices.Contains(r.servers, s.Name)
	staysWrapped := unwraps && isWrapped
	staysBare := !unwraps && isNamed && s.State == wrapping.NotEditable
	if staysWrapped || staysBare {
		return r.stdio.Cannot(fmt.Sprintf("%s %q in %s", r.verb, s.Name, c.Where()), errors.New(s.Reason))
	}
	switch {
	case unwraps || s.State != wrapping.Broken:
		return cli.ExitOK
	case r.check:
		return cli.ExitFailure
	}
	return r.stdio.Cannot(fmt.Sprintf("repair %q in %s", s.Name, c.Where()), errors.New(reasonText(*s)))
}

// noteMissingFlags is about flags that a person gave all servers of a file before others were added.
func (r *rewriting) noteMissingFlags(p clientconfig.Change) {
	for _, m := range p.MissingFlags("idle-freeze") {
		verb := "do not get"
		if len(m.Servers) == 1 {
			verb = "does not get"
		}
		var names []string
		command := "mcpscope wrap"
		for _, flag := range m.Flags {
			names = append(names, "--"+flag.Name)
			command += " --" + flag.Name + " " + cli.Word(flag.Value)
		}
		for _, server := range m.Servers {
			command += " --server " + cli.Word(server)
		}
		const text = "in %s, %s %s %s, which all wrapped servers have"
		who := strings.Join(m.Servers, ", ")
		r.stdio.Note(fmt.Sprintf(text, p.File.Where(), who, verb, strings.Join(names, " and ")))
		r.stdio.Hint(command + " " + cli.Word(cmp.Or(p.File.Client, p.File.Path)))
	}
}

// commandLine prints our prefix. It contains no secrets, but a name from the file.
func commandLine(words []string) string {
	line := ""
	for _, w := range words {
		line += cli.OneLine(quoted(w)) + " "
	}
	return line
}

// quoted puts quotes around a word of a command line if it would not be one word without them.
func quoted(word string) string {
	if strings.ContainsAny(word, " \t'\"") || word == "" {
		return fmt.Sprintf("%q", word)
	}
	return word
}
