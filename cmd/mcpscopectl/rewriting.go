// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/clients"
	"github.com/mcpscope/mcpscope/internal/configfile"
	"github.com/mcpscope/mcpscope/internal/name"
	"github.com/mcpscope/mcpscope/internal/wrapping"
)

// rewriting is what wrap and unwrap have in common: plan, show, ask, write.
type rewriting struct {
	flags changeFlags
	io    cli.Stdio
	verb  string
	edit  func(*configured) (*wrapping.Change, error)
	after func(*wrapping.Server) string // what will stand before the server's own command
}

// planned is a file that will be different.
type planned struct {
	*configured
	change *wrapping.Change
}

func (r *rewriting) run(operands []string) int {
	all, err := configurations(operands)
	if r.flags.all {
		all, err = everywhere()
	}
	if err != nil {
		return r.io.CannotWithHint(r.verb, err, clientHint(r.verb, err))
	}
	status := complain(r.io, all)
	if missing := r.unknown(all); missing != "" {
		return r.io.Cannot(r.verb, fmt.Errorf("there is no server %q", missing))
	}
	plan, err := r.plan(all)
	if err != nil {
		return r.io.Cannot(r.verb, err)
	}
	switch {
	case len(all) == 0:
		fmt.Fprintf(r.io.Out, "%s\nnothing to %s\n", noConfiguration(), r.verb)
		return status
	case len(plan) == 0:
		fmt.Fprintf(r.io.Out, "nothing to %s\n", r.verb)
		return status
	case r.flags.dryRun:
		return status
	}
	if !r.flags.yes && !confirmed(r.io, fmt.Sprintf("Change %s?", counted(len(plan), "file"))) {
		return unconfirmed(r.io, r.verb, "--yes")
	}
	for _, p := range plan {
		if err := r.write(p); err != nil {
			status = r.io.Cannot("change "+p.where(), err)
		}
	}
	return status
}

// unknown is a name that was given and that no server has.
func (r *rewriting) unknown(all []*configured) string {
	for _, name := range r.flags.servers {
		if !slices.ContainsFunc(all, func(c *configured) bool {
			return slices.ContainsFunc(c.servers, func(s wrapping.Server) bool { return s.Name == name })
		}) {
			return name
		}
	}
	return ""
}

// plan shows each file with what will be different in it.
func (r *rewriting) plan(all []*configured) (plan []planned, err error) {
	for _, c := range all {
		if c.err != nil {
			continue
		}
		change := &wrapping.Change{Servers: c.servers, Changed: make([]bool, len(c.servers))}
		if c.obstacle == "" {
			if change, err = r.edit(c); err != nil {
				return nil, fmt.Errorf("%s: %w", c.where(), err)
			}
		}
		r.show(c, change)
		if change.Any() {
			plan = append(plan, planned{c, change})
		}
	}
	return plan, nil
}

func (r *rewriting) show(c *configured, change *wrapping.Change) {
	if !slices.ContainsFunc(change.Servers, func(s wrapping.Server) bool { return r.flags.wants(s.Name) }) {
		return
	}
	out := r.io.Out
	fmt.Fprintf(out, "%s (%s)\n", c.where(), c.title("a file"))
	for i := range change.Servers {
		s := &change.Servers[i]
		if !r.flags.wants(s.Name) {
			continue
		}
		name := cli.OneLine(fit(s.Name, 64))
		if !change.Changed[i] {
			fmt.Fprintf(out, "  %s: %s\n", name, stateText(*s))
			continue
		}
		own := fmt.Sprintf("%s (%s)", withoutArguments(s.Own()), counted(len(s.Own())-1, "argument"))
		before := strings.TrimPrefix(commandLine(s.Argv[:len(s.Argv)-len(s.Own())])+" ", " ")
		after := strings.TrimPrefix(r.after(s)+" ", " ")
		fmt.Fprintf(out, "  %s:\n  - %s%s\n  + %s%s\n", name, before, own, after, own)
	}
	if change.Any() {
		r.warn(c, change)
	}
}

// warn says what is to be known before.
func (r *rewriting) warn(c *configured, change *wrapping.Change) {
	if configfile.Tracked(c.Path) || configfile.Tracked(c.file.Target) {
		fmt.Fprint(r.io.Out, "  warning: git keeps this file: its servers start for nobody who has no mcpscope in the same place\n")
	}
	if client := clients.Named(c.Client); client != nil && client.Note != "" && r.verb == "wrap" {
		fmt.Fprintf(r.io.Out, "  warning: %s\n", client.Note)
	}
	for i := range change.Servers {
		if s := &change.Servers[i]; change.Changed[i] && r.verb == "wrap" && name.OtherContainer(s.Own()) != "" {
			fmt.Fprintf(r.io.Out, "  warning: %s runs in a container that exists already: mcpscope ends the program that talks to it, and not what is left in the container\n", cli.OneLine(s.Label()))
		}
	}
}

// commandLine is a prefix of ours, which holds no secrets, but a name that somebody else wrote.
func commandLine(words []string) string {
	var line []string
	for _, w := range words {
		if strings.ContainsAny(w, " \t'\"") || w == "" {
			w = fmt.Sprintf("%q", w)
		}
		line = append(line, cli.OneLine(w))
	}
	return strings.Join(line, " ")
}

func (r *rewriting) write(p planned) error {
	backup, err := backupOf(p.file.Target)
	if err != nil {
		return err
	}
	if err := p.file.Replace(p.change.Data, backup); err != nil {
		return err
	}
	removeOldBackup(p)
	if !isThere(backup) {
		pruneBackups(backup)
	}
	count := 0
	for _, changed := range p.change.Changed {
		if changed {
			count++
		}
	}
	text := fmt.Sprintf("%sped %s in %s", r.verb, counted(count, "server"), p.where())
	if isThere(backup) {
		text += fmt.Sprintf(" (backup: %s)", cli.OneLine(backup))
	}
	fmt.Fprintf(r.io.Out, "%s. Restart %s to use it.\n", strings.ToUpper(text[:1])+text[1:], p.title("the client"))
	return nil
}
