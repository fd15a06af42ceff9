// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/clientconfig/wrapping"
)

// rewriting is what wrap and unwrap have in common: plan, show, ask, write.
type rewriting struct {
	changeFlags
	io      cli.Stdio
	verb    string
	program string // to wrap with; "" unwraps
}

// planned is a file with what is to become of it.
type planned struct {
	*configured
	change *wrapping.Change
}

func (r *rewriting) run(operands []string) int {
	all, err := configurations(operands)
	if err != nil {
		return r.io.Cannot(r.verb, err)
	}
	status := complain(r.io, all)
	if missing := r.unknown(all); missing != "" {
		return r.io.Cannot(r.verb, fmt.Errorf("there is no server %q", missing))
	}
	var plan []planned
	for _, c := range all {
		if c.err != nil {
			continue
		}
		p := planned{c, r.edit(c)}
		status = max(status, r.show(p))
		if p.change.Count() > 0 {
			plan = append(plan, p)
		}
	}
	if len(all) == 0 {
		fmt.Fprintln(r.io.Out, noConfiguration)
	}
	switch {
	case len(plan) == 0:
		fmt.Fprintf(r.io.Out, "nothing to %s\n", r.verb)
		return status
	case r.dryRun:
		return status
	case !r.yes && !confirmed(r.io, fmt.Sprintf("Change %s?", counted(len(plan), "file"))):
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
	for _, name := range r.servers {
		if !slices.ContainsFunc(all, func(c *configured) bool {
			return slices.ContainsFunc(c.servers, func(s wrapping.Server) bool { return s.Name == name })
		}) {
			return name
		}
	}
	return ""
}

func (r *rewriting) edit(c *configured) *wrapping.Change {
	if r.program == "" {
		return c.reader.Unwrap(c.document, c.file.Backup(), r.wants)
	}
	return c.reader.Wrap(c.document, c.file.Backup(), r.program, r.wants)
}

// show prints what will change, and why servers stay as they are. One that can't be unwrapped is a failure:
// its client still needs mcpscope.
func (r *rewriting) show(p planned) int {
	status := cli.ExitOK
	if !slices.ContainsFunc(p.servers, func(s wrapping.Server) bool { return r.wants(s.Name) }) {
		return status
	}
	out := r.io.Out
	fmt.Fprintf(out, "%s (%s)\n", p.where(), p.title("a file"))
	for i := range p.servers {
		s := &p.change.Servers[i]
		if !r.wants(s.Name) {
			continue
		}
		name := cli.OneLine(fit(s.Name, 64))
		if !p.change.Changed[i] {
			fmt.Fprintf(out, "  %s: %s\n", name, stateText(*s))
			switch {
			case r.program == "" && p.servers[i].State == wrapping.Wrapped:
				status = r.io.Cannot(fmt.Sprintf("unwrap %q in %s", s.Name, p.where()), errors.New(s.Reason))
			case r.program != "" && s.State == wrapping.NotEditable && s.Reason == noYAML:
				for _, line := range s.ByHand(r.program) {
					fmt.Fprintf(out, "      %s\n", cli.OneLine(line))
				}
			}
			continue
		}
		own := fmt.Sprintf("%s (%s)", withoutArguments(s.Own()), counted(len(s.Own())-1, "argument"))
		before, after := commandLine(s.Argv[:len(s.Argv)-len(s.Own())]), ""
		if r.program != "" {
			after = commandLine(s.Prefix(r.program))
		}
		fmt.Fprintf(out, "  %s:\n  - %s%s\n  + %s%s\n", name, before, own, after, own)
		if r.program != "" && inOldContainer(s.Own()) {
			fmt.Fprint(out, "  warning: it runs in an existing container; what is left in that stays\n")
		}
	}
	return status
}

// inOldContainer tells whether a command has a container engine start a server in a container that is there.
func inOldContainer(argv []string) bool {
	if !slices.Contains([]string{"docker", "podman", "nerdctl"}, path.Base(argv[0])) {
		return false
	}
	for _, word := range argv[1:] {
		switch word {
		case "run", "compose":
			return false
		case "exec", "start", "attach":
			return true
		}
	}
	return false
}

// commandLine is a prefix of ours, which holds no secrets, but a name that somebody else wrote.
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

func (r *rewriting) write(p planned) error {
	if err := p.file.Replace(p.change.Data, p.change.Backup); err != nil {
		return err
	}
	text := fmt.Sprintf("%sped %s in %s", r.verb, counted(p.change.Count(), "server"), p.where())
	if !bytes.Equal(p.change.Data, p.change.Backup) {
		text += fmt.Sprintf(" (backup: %s)", cli.OneLine(p.file.BackupPath()))
	}
	text = strings.ToUpper(text[:1]) + text[1:]
	fmt.Fprintf(r.io.Out, "%s. Restart %s to use it.\n", text, p.title("the client"))
	return nil
}
