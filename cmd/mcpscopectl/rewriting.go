// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

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
	runner *wrapping.Runner // to wrap with; nil unwraps
	shared bool             // wrap files that git tracks, too
	check  bool             // only report whether there is anything to change
}

// choice says which servers are changed, and how.
type choice struct {
	servers []string
	yes     bool // without a question
	dryRun  bool // print the changes of files, and make none
}

func (f *choice) wants(server string) bool {
	return len(f.servers) == 0 || slices.Contains(f.servers, server)
}

const noConfiguration = "no client configuration found in the home or working directory, or above it"

func (r *rewriting) run(operands []string) int {
	if err := undoSudo(); err != nil {
		return r.io.Cannot(r.verb, err)
	}
	found, err := clientconfig.Find(operands)
	if err != nil {
		return r.io.Cannot(r.verb, err)
	}
	status := complain(r.io, found)
	isAll := status == cli.ExitOK
	if missing := r.unknown(found.Files); missing != "" {
		return r.io.Cannot(r.verb, fmt.Errorf("there is no server %q", missing))
	}
	var plan []clientconfig.Change
	for _, c := range found.Files {
		switch {
		case c.Err != nil:
			continue
		case c.IsOfSudoUser():
			status = r.io.CannotWithHint(r.verb+" "+c.Where(), errors.New("sudo uses the home of root, "+
				"and the file is yours"), "mcpscope "+r.verb+", without sudo")
			continue
		case len(c.Servers) == 0 && c.Named:
			fmt.Fprintf(r.io.Out, "%s: no servers below any key that clients use\n", c.Where())
		}
		change := r.plan(c)
		if !r.dryRun {
			status = max(status, r.show(change))
		}
		if change.Count() > 0 {
			plan = append(plan, change)
		}
	}
	if len(found.Files) == 0 && clientconfig.IsSudo() {
		return r.io.CannotWithHint(r.verb, errors.New(noConfiguration+"; sudo uses the home of root"),
			"mcpscope "+r.verb+", without sudo")
	}
	if len(found.Files) == 0 {
		fmt.Fprintln(r.io.Out, noConfiguration)
	}
	changed := r.change(plan, isAll)
	if r.runner == nil && !r.dryRun && changed == cli.ExitOK {
		changed = r.cleanUp(found.Left)
	}
	return max(status, changed)
}

// cleanUp removes the backups that equal their files, and prints the path of each other one: it can contain
// keys.
func (r *rewriting) cleanUp(left []clientconfig.Left) int {
	status := cli.ExitOK
	for _, l := range left {
		removed, err := l.RemoveIfEqual()
		path := l.File.Where()
		backup := cli.OneLine(l.Backup)
		switch {
		case err != nil:
			status = r.io.Cannot("clean up", err)
		case removed:
			fmt.Fprintf(r.io.Out, "%s: removed its backup, which is the same text\n", path)
		case l.Removed:
			fmt.Fprintf(r.io.Out, "%s: it was removed, and its backup is there: rm %s\n", path, backup)
		default:
			fmt.Fprintf(r.io.Out, "%s: nothing in it is wrapped, and its backup is another text: rm %s\n",
				path, backup)
		}
	}
	return status
}

// change writes the files, after a question. isAll: every file could be read.
func (r *rewriting) change(plan []clientconfig.Change, isAll bool) int {
	status := cli.ExitOK
	files := cli.Counted(len(plan), "file")
	switch {
	case r.dryRun:
		for _, p := range plan {
			path := cli.OneLine(p.File.Path)
			fmt.Fprintf(r.io.Out, "%s", diff.Diff(path, p.Before(), path, p.Data))
		}
		return status
	case len(plan) == 0 && isAll:
		fmt.Fprintf(r.io.Out, "nothing to %s\n", r.verb)
		return status
	case len(plan) == 0:
		fmt.Fprintf(r.io.Out, "nothing to %s in the other files\n", r.verb)
		return status
	case r.check:
		fmt.Fprintf(r.io.Out, "mcpscope wrap would change %s\n", files)
		return cli.ExitFailure
	case !r.yes && !r.io.Confirmed("Change "+files+"?"):
		return r.io.Unconfirmed(r.verb, "--yes")
	}
	for _, p := range plan {
		if err := r.write(p); err != nil {
			status = r.io.Cannot("change "+p.File.Where(), err)
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
	if !r.shared {
		c.LeaveShared()
	}
	return c.Wrap(*r.runner, r.wants)
}

// show prints what will change, and why servers stay as they are. One that can't be unwrapped is a failure:
// its client still needs mcpscope.
func (r *rewriting) show(p clientconfig.Change) int {
	status := cli.ExitOK
	if !slices.ContainsFunc(p.Servers, func(s wrapping.Server) bool { return r.wants(s.Name) }) {
		return status
	}
	fmt.Fprintf(r.io.Out, "%s (%s)\n", p.File.Where(), p.File.ClientTitle("a file"))
	for i := range p.Servers {
		s := &p.Servers[i]
		switch {
		case !r.wants(s.Name):
		case p.Changed[i]:
			r.showChange(s, &p.After[i])
		default:
			status = max(status, r.showUnchanged(p.File, s, p.File.Servers[i].IsWrapped()))
		}
	}
	return status
}

func titleOf(s *wrapping.Server) string { return cli.OneLine(show.Fit(s.Name, 64)) }

func (r *rewriting) showChange(before, after *wrapping.Server) {
	program, arguments := clientconfig.WithoutArguments(before.Own()), len(before.Own())-1
	own := fmt.Sprintf("%s (%s)", program, cli.Counted(arguments, "argument"))
	fmt.Fprintf(r.io.Out, "  %s:\n  - %s%s\n  + %s%s\n",
		titleOf(before), commandLine(before.Prefix()), own, commandLine(after.Prefix()), own)
	if r.runner != nil && name.OtherContainer(before.Own()) != "" {
		fmt.Fprint(r.io.Out, "  warning: the server runs in an existing container; "+
			"its left-over processes there stay\n")
	}
}

func (r *rewriting) showUnchanged(c *clientconfig.File, s *wrapping.Server, isWrapped bool) int {
	fmt.Fprintf(r.io.Out, "  %s: %s\n", titleOf(s), stateText(*s))
	if s.ByHand() && isWrapped == (r.runner == nil) {
		for _, line := range c.Lines(s, r.runner) {
			fmt.Fprintf(r.io.Out, "      %s\n", cli.OneLine(line))
		}
	}
	isNamed := slices.Contains(r.servers, s.Name)
	if r.runner == nil && isWrapped || r.runner != nil && isNamed && s.State == wrapping.NotEditable {
		return r.io.Cannot(fmt.Sprintf("%s %q in %s", r.verb, s.Name, c.Where()), errors.New(s.Reason))
	}
	if r.check && s.State == wrapping.Broken {
		return cli.ExitFailure
	}
	return cli.ExitOK
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
	text := fmt.Sprintf("%sped %s in %s", r.verb, cli.Counted(p.Count(), "server"), p.File.Where())
	switch {
	case backup == "":
	case p.KeepsMore():
		const kept = " (kept its backup, because the file has changed since: rm %s)"
		text += fmt.Sprintf(kept, cli.OneLine(backup))
	default:
		text += fmt.Sprintf(" (backup: %s)", cli.OneLine(backup))
	}
	text = strings.ToUpper(text[:1]) + text[1:]
	fmt.Fprintf(r.io.Out, "%s. Restart %s to use it.\n", text, p.File.ClientTitle("the client"))
	return nil
}
