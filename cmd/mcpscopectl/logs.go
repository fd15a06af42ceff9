// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcpscope/mcpscope/internal/cli"
	gw "github.com/mcpscope/mcpscope/internal/gateway"
	"github.com/mcpscope/mcpscope/scope"
)

type logsFlags struct {
	journalFlags
	lines string
}

func logsCommand(io cli.Stdio) *cobra.Command {
	var f logsFlags
	c := command(spec{
		use: "logs NAME|ID [flags]", short: "print what a server has written to stderr, by way of the journal", operands: servers,
		examples: `  mcpscope logs git -n 50
  mcpscope logs -f git
`,
		long: `Prints what a server has written to stderr, if it was started with --stderr
journal, by mcpscope run or below mcpscope gateway. It may have ended: a name means
the newest server of that name, and ID may be the beginning of one.

On a terminal control characters are shown as "?". The journal drops empty lines and
cuts those of more than 48 KiB (journald.conf, LineMax=).`,
	}, func(operands []string) int { return f.run(operands, io) })
	f.journalFlags.set(c.Flags(), "after the last ten lines")
	c.Flags().FuncP("lines", "n", "the last `N` lines only", func(s string) error {
		if _, err := strconv.ParseUint(s, 10, 31); err != nil {
			return fmt.Errorf("%q is no number of lines", s)
		}
		f.lines = s
		return nil
	})
	return c
}

func (f *logsFlags) run(operands []string, io cli.Stdio) int {
	if len(operands) != 1 {
		return io.Mistake("logs", "which server? Give one name or id")
	}
	s, err := f.find(operands[0])
	if errors.As(err, new(*unknownError)) {
		return io.Cannot("print logs", err)
	}
	if err != nil {
		return cannotRead(io, err)
	}
	if s.Stderr == string(scope.StderrInherit) {
		return f.inherited(s, io)
	}
	if f.follow {
		go endWithReader()
	}
	show := shown(io.Out)
	err = readJournal(f.line(s), func(e entry) error {
		for _, text := range e["MESSAGE"] {
			if _, err := fmt.Fprintln(io.Out, show(text)); err != nil {
				return errEnough // it has been noticed
			}
		}
		return nil
	})
	if err != nil {
		return cannotRead(io, err)
	}
	return cli.ExitOK
}

// inherited says that there are no lines, and why not where they were asked for.
func (f *logsFlags) inherited(s eventView, io cli.Stdio) int {
	why, hint := "", "start it with --stderr journal, of mcpscope run or of its gateway"
	_ = f.read([]string{scope.FieldID + "=" + s.ID, "_UID=" + strconv.Itoa(s.UID)}, func(v eventView) error { // without it only the reason is missing
		if text, kept := strings.CutPrefix(v.Note, scope.StderrKept); kept {
			why = ": " + text
		}
		return nil
	}, scope.EventNote)
	switch why {
	case "":
	case ": " + gw.RanBefore:
		hint = "it is known before it runs at its next start, or by --config or --match of its gateway"
	default:
		hint = ""
	}
	return io.CannotWithHint("print logs", fmt.Errorf("the stderr of %s (%s) is its client's%s", s.Name, s.ID, why), hint)
}

// line is journalctl's. Only what came by a stream counts: an entry says of itself what it
// likes, but for what begins with "_".
func (f *logsFlags) line(s eventView) []string {
	line := []string{"--all", "--output-fields=MESSAGE"}
	if f.follow {
		line = append(line, "--follow")
	}
	switch {
	case f.lines != "":
		line = append(line, "--lines="+f.lines)
	case f.follow && f.since != "":
		line = append(line, "--no-tail")
	}
	line = append(line, f.span()...)
	return append(line, "_UID="+strconv.Itoa(s.UID), "_TRANSPORT=stdout", "SYSLOG_IDENTIFIER="+scope.LogIdentifier(s.Name, s.ID))
}

// find prefers an id to a name, and the newest to others. Who runs is known without the
// journal too, which may have lost the word of its start.
func (f *logsFlags) find(arg string) (eventView, error) {
	var byID, byName, begun *eventView
	take := func(v eventView) {
		switch {
		case v.ID == arg:
			byID = &v
		case v.Name == arg:
			byName = &v
		case v.means(arg):
			begun = &v
		}
	}
	running, _ := (&filter{allUsers: f.allUsers}).list() // whoever can't be seen is in the journal
	for _, s := range running {
		take(eventView{ID: s.ID, Name: s.Name, UID: s.UID})
	}
	closeAll(running)
	err := f.read(nil, func(v eventView) error {
		take(v)
		return nil
	}, scope.EventStarted)
	if found := cmp.Or(byID, byName, begun); found != nil && err == nil {
		return *found, nil
	}
	return eventView{}, cmp.Or(err, error(&unknownError{arg}))
}

// shown is how a line is printed there: as it is, but for a terminal.
func shown(out io.Writer) func(string) string {
	if !onTerminal(out) {
		return func(s string) string { return s }
	}
	return func(s string) string {
		var parts []string
		for part := range strings.SplitSeq(strings.ToValidUTF8(s, "\ufffd"), "\t") { // a tab is harmless
			parts = append(parts, cli.OneLine(part))
		}
		return strings.Join(parts, "\t")
	}
}
