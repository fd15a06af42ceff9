// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/clientconfig"
	"github.com/mcpscope/mcpscope/internal/clientconfig/splice"
	"github.com/mcpscope/mcpscope/internal/clientconfig/wrapping"
	"github.com/mcpscope/mcpscope/internal/programs"
)

// rewriting is one call of wrap or unwrap: plan, show, ask, write.
type rewriting struct {
	choice
	stdio  cli.Stdio
	verb   string
	runner *wrapping.Runner // to wrap with; nil unwraps
	check  bool             // only report whether there is anything to change
	named  bool             // a person has named the clients or files
	wrote  bool             // a file was changed
	unlock func()           // another command that changes files waits for it
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
	if status := undoSudo(os.Geteuid(), r.stdio, r.verb); status != cli.ExitOK {
		return status
	}
	r.unlock = func() {}
	if !r.check && !r.dryRun {
		r.unlock = clientconfig.Lock()
	}
	defer func() { r.unlock() }()
	r.named = len(operands) > 0
	found, err := clientconfig.Find(operands)
	if err != nil {
		return r.stdio.Cannot(r.verb, clientconfig.WithServerFlag(err, operands))
	}
	consequence := ""
	if r.runner == nil {
		consequence = "; any wrapped server there stays wrapped"
	}
	status := printUnread(r.stdio, found, r.named, consequence)
	missing := unknownServer(r.servers, found.Files)
	if missing != "" {
		return r.stdio.Cannot(r.verb, fmt.Errorf("there is no server %q", missing))
	}
	if len(found.Files) == 0 && clientconfig.IsSudo() {
		return r.cannotAsRoot(r.verb, noConfiguration+"; sudo uses the home of root")
	}
	if len(found.Files) == 0 {
		fmt.Fprintln(r.stdio.Out, noConfiguration)
	}
	plan, planned := r.planFiles(found.Files)
	r.noteSource(plan)
	changed := r.changeFiles(plan, nothingIn(found.Files))
	isUndone := r.runner == nil && !r.dryRun && changed == cli.ExitOK
	if isUndone {
		r.cleanUp(found.Left)
	}
	return max(status, planned, changed)
}

// cannotAsRoot reports a failure under sudo, and hints at the same command without it: root has another home.
func (r *rewriting) cannotAsRoot(goal, reason string) int {
	return r.stdio.CannotWithHint(goal, errors.New(reason), "mcpscope "+r.verb+", without sudo")
}

// unknownServer returns the first of the names that no server has, or "".
func unknownServer(names []string, files []*clientconfig.File) string {
	for _, name := range names {
		isIt := func(s wrapping.Server) bool { return s.Name == name }
		hasIt := func(c *clientconfig.File) bool { return slices.ContainsFunc(c.Servers, isIt) }
		if !slices.ContainsFunc(files, hasIt) {
			return name
		}
	}
	return ""
}

// planFiles prints the plan of each file that could be read, and returns the changes.
func (r *rewriting) planFiles(files []*clientconfig.File) (changes []clientconfig.Change, status int) {
	if r.runner != nil {
		clientconfig.LeaveShared(files)
	}
	for _, c := range files {
		if c.Err != nil { // it was reported
			continue
		}
		if c.IsOfSudoUser() {
			status = r.cannotAsRoot(r.verb+" "+c.Where(), "sudo uses the home of root, and the file is yours")
			continue
		}
		if len(c.Servers) == 0 && c.Named {
			fmt.Fprintf(r.stdio.Out, "%s: no servers below any key that clients use\n", c.Where())
		}
		change := r.planFile(c)
		status = max(status, r.printFile(change))
		if change.Count() > 0 {
			changes = append(changes, change)
		}
	}
	return changes, status
}

// printFile prints the plan of a file. It is a failure if nothing can be changed in a file that a person has
// named, and if a server stays wrapped after an unwrap.
func (r *rewriting) printFile(p clientconfig.Change) int {
	status := r.printPlan(p)
	wraps := r.runner != nil && !r.check
	if wraps && r.named && p.IsStuck(r.wants) && status == cli.ExitOK {
		reason := cmp.Or(p.File.Obstacle(), "no server in it can be edited")
		status = r.stdio.Cannot("wrap "+p.File.Where(), errors.New(reason))
	}
	if r.runner != nil && p.Count() > 0 {
		tracked := p.File.TrackedNote()
		if tracked != "" {
			r.stdio.Note(tracked)
		}
		r.noteMissingFlags(p)
	}
	remedy := p.File.Remedy()
	if remedy == "" {
		return status
	}
	leavesBare := r.runner != nil && p.LeavesBare(r.wants)
	if status == cli.ExitOK && leavesBare {
		r.stdio.Note("servers in " + p.File.Where() + " stay without mcpscope: " + p.File.Obstacle())
	}
	if status != cli.ExitOK || leavesBare {
		r.stdio.Hint(remedy)
	}
	return status
}

// noteSource prints a note if wrapped servers start a program in the source code: a change gives its path
// to clients.
func (r *rewriting) noteSource(plan []clientconfig.Change) {
	if r.runner == nil {
		return
	}
	isUsed := func(p clientconfig.Change) bool { return p.Starts(r.runner.Program) }
	if slices.ContainsFunc(plan, isUsed) {
		const again = "mcpscope wrap --program /usr/local/bin/mcpscope"
		noteNotInstalled(r.stdio, r.runner.Program, "the wrapped servers start", again)
	}
}

// noteNotInstalled is about a program in the source code, whose path will be in files. effect happens only
// as long as the program is there, and again is the command that writes another path.
func noteNotInstalled(stdio cli.Stdio, program, effect, again string) {
	source := programs.FindSource(program)
	if source == "" {
		return
	}
	stdio.Note(fmt.Sprintf("%s is not installed: %s only as long as %s is there", program, effect, source))
	stdio.Hint(fmt.Sprintf("sudo make -C %s install, then %s", cli.Word(source), again))
}

func (r *rewriting) planFile(c *clientconfig.File) clientconfig.Change {
	if r.runner == nil {
		return c.Unwrap(r.wants)
	}
	return c.Wrap(*r.runner, r.wants)
}

// nothingIn says in which files nothing is to change. It is "" if every file could be read.
func nothingIn(files []*clientconfig.File) string {
	var read, unread []string
	for _, c := range files {
		if c.Err == nil {
			read = append(read, c.Where())
		} else {
			unread = append(unread, c.Where())
		}
	}
	switch {
	case len(unread) == 0:
		return ""
	case len(read) == 0 && len(unread) == 1:
		return ", because " + unread[0] + " cannot be read"
	case len(read) == 0:
		return ", because no file can be read"
	case len(read) == 1:
		return " in " + read[0]
	}
	return " in the files that can be read"
}

// changeFiles writes the files, after a question. Without a plan it prints where there is nothing to change.
func (r *rewriting) changeFiles(plan []clientconfig.Change, nothingIn string) int {
	files := cli.Counted(len(plan), "file")
	switch {
	case len(plan) == 0:
		fmt.Fprintf(r.stdio.Out, "nothing to %s%s\n", r.verb, nothingIn)
		return cli.ExitOK
	case r.dryRun:
		return r.printDiffs(plan)
	case r.check:
		fmt.Fprintf(r.stdio.Out, "mcpscope wrap would change %s\n", files)
		return cli.ExitFailure
	case !r.yes && !r.confirmed("Change "+files+"?"):
		return r.stdio.Unconfirmed(r.verb, "--yes")
	}
	status := cli.ExitOK
	for _, p := range plan {
		status = max(status, r.write(p))
	}
	return status
}

// confirmed asks without the lock: a person may think for long. What another command changes meanwhile is not
// overwritten, but reported.
func (r *rewriting) confirmed(question string) bool {
	r.unlock()
	isConfirmed := r.stdio.Confirmed(question)
	r.unlock = clientconfig.Lock()
	return isConfirmed
}

// printDiffs prints the changed lines, without what can be a secret: people show them to others.
func (r *rewriting) printDiffs(plan []clientconfig.Change) int {
	r.stdio.Note("the diff has " + splice.Masked + " in place of values and comments, " +
		"which can be secrets; the files keep them")
	status := cli.ExitOK
	if r.check {
		status = cli.ExitFailure
	}
	for _, p := range plan {
		before, after, err := p.Masked()
		if err != nil {
			status = r.stdio.Cannot("print the change of "+p.File.Where(), err)
			continue
		}
		path := cli.OneLine(p.File.Path)
		fmt.Fprintf(r.stdio.Out, "%s", diff.Diff(path, before, path, after))
	}
	return status
}

func (r *rewriting) write(p clientconfig.Change) int {
	backup, err := p.Write()
	stays, backupStays := errors.AsType[*clientconfig.BackupStaysError](err)
	if err != nil && !backupStays {
		return r.stdio.Cannot("change "+p.File.Where(), err)
	}
	r.wrote = true
	text := fmt.Sprintf("%s in %s", r.countText(p), p.File.Where())
	switch {
	case backup == "":
	case p.KeepsMore():
		const kept = " (kept its backup, which may contain keys, because the file has changed since: rm %s)"
		text += fmt.Sprintf(kept, cli.OneLine(cli.Word(backup)))
	default:
		text += fmt.Sprintf(" (backup: %s)", cli.OneLine(backup))
	}
	text = strings.ToUpper(text[:1]) + text[1:]
	fmt.Fprintf(r.stdio.Out, "%s. Restart %s to use it.\n", text, p.File.ClientTitle("the client"))
	if backupStays {
		noteStays(r.stdio, stays)
	}
	return cli.ExitOK
}

// noteStays prints that a backup cannot be removed, and a hint to remove it by hand. No command needs it.
func noteStays(stdio cli.Stdio, err *clientconfig.BackupStaysError) {
	stdio.NoteError("cannot ", err)
	stdio.Hint("it may contain keys: sudo rm " + cli.Word(err.Path))
}

// countText counts the servers of a file: those that are wrapped now, those that were repaired, and others.
func (r *rewriting) countText(p clientconfig.Change) string {
	count := map[string]int{}
	for i := range p.Servers {
		if p.Changed[i] {
			count[r.pastOf(&p.Servers[i], &p.After[i])]++
		}
	}
	var texts []string
	for _, past := range []string{"unwrapped", "wrapped", "repaired", "changed"} {
		if count[past] > 0 {
			texts = append(texts, past+" "+cli.Counted(count[past], "server"))
		}
	}
	return strings.Join(texts, ", ")
}

// pastOf returns the verb for the change of a server.
func (r *rewriting) pastOf(before, after *wrapping.Server) string {
	switch {
	case r.runner == nil:
		return "unwrapped"
	case !before.IsWrapped():
		return "wrapped"
	case before.State == wrapping.Broken && after.State == wrapping.Wrapped:
		return "repaired"
	}
	return "changed"
}

// cleanUp removes the backups that have nothing that their files do not have, and prints the path of each
// other one: it can contain keys.
func (r *rewriting) cleanUp(left []clientconfig.Left) {
	for _, l := range left {
		removed, err := l.RemoveIfSpent()
		path := l.File.Where()
		backup := cli.OneLine(cli.Word(l.Backup)) // in a command
		switch {
		case err != nil:
			noteStays(r.stdio, err)
		case removed:
			fmt.Fprintf(r.stdio.Out, "%s: removed its backup, which has the same servers\n", path)
		case l.Removed:
			const text = "%s: it was removed, and its backup, which may contain keys, is there: rm %s\n"
			fmt.Fprintf(r.stdio.Out, text, path, backup)
		default:
			const text = "%s: nothing in it is wrapped, " +
				"and its backup, which may contain keys, has other servers or comments: rm %s\n"
			fmt.Fprintf(r.stdio.Out, text, path, backup)
		}
	}
}
