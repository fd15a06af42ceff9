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
	"github.com/mcpscope/mcpscope/internal/wrapping"
)

// rewriting is what wrap and unwrap have in common: plan, show, ask, write.
type rewriting struct {
	changeFlags
	io      cli.Stdio
	verb    string
	program string // to wrap with; "" unwraps
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
	changes, files := map[*configured]*wrapping.Change{}, 0
	for _, c := range all {
		if c.err != nil {
			continue
		}
		change := r.edit(c)
		r.show(c, change)
		status = max(status, r.complainLeft(c, change))
		if change.Any() {
			changes[c] = change
			files++
		}
	}
	switch {
	case len(all) == 0:
		fmt.Fprintf(r.io.Out, "%s\nnothing to %s\n", noConfiguration, r.verb)
		return status
	case files == 0:
		fmt.Fprintf(r.io.Out, "nothing to %s\n", r.verb)
		return status
	case r.dryRun:
		return status
	}
	if !r.yes && !confirmed(r.io, fmt.Sprintf("Change %s?", counted(files, "file"))) {
		return unconfirmed(r.io, r.verb, "--yes")
	}
	for _, c := range all {
		if changes[c] == nil {
			continue
		}
		if err := r.write(c, changes[c]); err != nil {
			status = r.io.Cannot("change "+c.where(), err)
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
	switch {
	case c.obstacle != "":
		return &wrapping.Change{Servers: c.servers, Changed: make([]bool, len(c.servers))}
	case r.program == "":
		return c.reader.Unwrap(c.document, c.file.Backup(), r.wants)
	}
	return c.reader.Wrap(c.document, c.file.Backup(), r.program, r.wants)
}

// complainLeft says which servers stay wrapped though they were to be unwrapped: they need mcpscope.
func (r *rewriting) complainLeft(c *configured, change *wrapping.Change) int {
	status := cli.ExitOK
	for i, s := range change.Servers {
		if r.program == "" && c.servers[i].State == wrapping.Wrapped && r.wants(s.Name) && !change.Changed[i] {
			status = r.io.Cannot(fmt.Sprintf("unwrap %q in %s", s.Label(), c.where()), errors.New(s.Reason))
		}
	}
	return status
}

func (r *rewriting) show(c *configured, change *wrapping.Change) {
	if !slices.ContainsFunc(change.Servers, func(s wrapping.Server) bool { return r.wants(s.Name) }) {
		return
	}
	out := r.io.Out
	fmt.Fprintf(out, "%s (%s)\n", c.where(), c.title("a file"))
	for i := range change.Servers {
		s := &change.Servers[i]
		if !r.wants(s.Name) {
			continue
		}
		name := cli.OneLine(fit(s.Name, 64))
		if !change.Changed[i] {
			fmt.Fprintf(out, "  %s: %s\n", name, stateText(*s))
			if s.Reason == noYAML && r.program != "" && s.State != wrapping.Wrapped {
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
			fmt.Fprint(out, "  warning: it runs in a container that exists already: what is left in the container is not ended\n")
		}
	}
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

func (r *rewriting) write(c *configured, change *wrapping.Change) error {
	if err := c.file.Replace(change.Data, change.Backup); err != nil {
		return err
	}
	count := 0
	for _, changed := range change.Changed {
		if changed {
			count++
		}
	}
	text := fmt.Sprintf("%sped %s in %s", r.verb, counted(count, "server"), c.where())
	if !bytes.Equal(change.Data, change.Backup) {
		text += fmt.Sprintf(" (backup: %s)", cli.OneLine(c.file.BackupPath()))
	}
	fmt.Fprintf(r.io.Out, "%s. Restart %s to use it.\n", strings.ToUpper(text[:1])+text[1:], c.title("the client"))
	return nil
}
