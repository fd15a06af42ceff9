// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/scope"
)

// journalFlags are what events and logs have in common.
type journalFlags struct {
	follow       bool
	since, until string // for journalctl, "" for all
	allUsers     bool
}

func (f *journalFlags) set(fs *pflag.FlagSet, after string) {
	fs.BoolVarP(&f.follow, "follow", "f", false, "go on with what happens from now on, "+after)
	timeFlag(fs, &f.since, "since", "from then on")
	timeFlag(fs, &f.until, "until", "up to then")
	allUsers(fs, &f.allUsers)
}

// timeFlag is a time for journalctl.
func timeFlag(fs *pflag.FlagSet, to *string, name, help string) {
	fs.Func(name, help+": a duration ago (2h, 1d), or what journalctl takes (\"2026-11-20 8:00\", today): `TIME`", func(s string) error {
		*to = s
		if d, err := scope.ParseDuration(s); err == nil {
			*to = fmt.Sprintf("@%d", time.Now().Add(-d.Abs()).Unix())
		}
		return nil
	})
}

// linesFlag is how many of the last ones are wanted; 0 for all.
func linesFlag(fs *pflag.FlagSet, to *int) {
	fs.FuncP("lines", "n", "the last `N` only", func(s string) error {
		n, err := strconv.ParseUint(s, 10, 31)
		if err != nil || n == 0 {
			return fmt.Errorf("%q is no number of lines", s)
		}
		*to = int(n)
		return nil
	})
}

// span is from when to when, as journalctl takes it.
func (f *journalFlags) span() (line []string) {
	if f.since != "" {
		line = append(line, "--since="+f.since)
	}
	if f.until != "" {
		line = append(line, "--until="+f.until)
	}
	return line
}

type eventsFlags struct {
	journalFlags
	json  bool
	lines int
	kinds []scope.Event
}

func eventsCommand(io cli.Stdio) *cobra.Command {
	var f eventsFlags
	c := command(spec{
		use: "events [NAME|ID…] [flags]", short: "print what has happened to servers", operands: servers,
		examples: `  mcpscope events --since 2h
  mcpscope events -f git
  mcpscope events --event ended -n 5 git
`,
		long: `Prints what has happened to servers, the oldest first, as systemd's journal has it:
started, ended, killed, out-of-memory, pids-refused, frozen, thawed, asked-to-stop,
swept, note. ID may be the beginning of one.

Entries are written where there is a journal, and nobody waits for it: one that is
full or hangs loses them. mcpscope run --report writes the same of every end.`,
	}, func(operands []string) int { return f.run(operands, io) })
	f.journalFlags.set(c.Flags(), "after the last ten")
	linesFlag(c.Flags(), &f.lines)
	c.Flags().Func("event", "only events of this `KIND`; may be given more than once", func(s string) error {
		if scope.MessageIDs()[scope.Event(s)] == "" {
			return fmt.Errorf("%q is none of %s", s, strings.Join(eventKinds(), ", "))
		}
		f.kinds = append(f.kinds, scope.Event(s))
		return nil
	})
	completes(c, "event", eventKinds()...)
	c.Flags().BoolVar(&f.json, "json", false, "a line of JSON for each")
	return c
}

func (f *eventsFlags) run(operands []string, io cli.Stdio) int {
	var line []string
	switch {
	case f.follow && f.until != "":
		return io.Mistake("events", "--follow or --until, not both")
	case f.follow && f.lines > 0:
		line = append(line, "--follow", fmt.Sprintf("--lines=%d", f.lines))
	case f.follow && f.since == "":
		line = append(line, "--follow", "--lines=10")
	case f.follow:
		line = append(line, "--follow", "--no-tail")
	}
	line = append(line, f.span()...)
	if f.follow {
		go endWithReader()
	}
	any := false
	var last []eventView // of those that are wanted, which journalctl can't count
	err := f.read(line, func(v eventView) error {
		if len(operands) > 0 && !slices.ContainsFunc(operands, v.means) {
			return nil
		}
		any = true
		if f.lines == 0 || f.follow {
			return f.print(v, io)
		}
		last = append(last, v)
		if len(last) > 2*f.lines {
			last = slices.Clone(last[len(last)-f.lines:])
		}
		return nil
	}, f.kinds...)
	if err != nil {
		return cannotRead(io, err)
	}
	for _, v := range last[max(len(last)-f.lines, 0):] {
		if f.print(v, io) != nil {
			break // it has been noticed
		}
	}
	if !any && !f.json {
		sayNone(io.Out, "no events")
	}
	return cli.ExitOK
}

func eventKinds() []string {
	var all []string
	for kind := range scope.MessageIDs() {
		all = append(all, string(kind))
	}
	slices.Sort(all)
	return all
}

// read gives each event to the function.
func (f *journalFlags) read(line []string, each func(eventView) error, kinds ...scope.Event) error {
	if len(kinds) == 0 {
		kinds = slices.Collect(maps.Keys(scope.MessageIDs()))
	}
	if !f.allUsers { // what the journal says of the writer's uid nobody can forge
		line = append(line, "_UID="+strconv.Itoa(os.Getuid()))
	}
	for _, kind := range kinds {
		line = append(line, "MESSAGE_ID="+scope.MessageIDs()[kind])
	}
	return readJournal(line, func(e entry) error {
		if v, ok := viewEvent(e); ok {
			return each(v)
		}
		return nil
	})
}

// means tells whether an argument is this server's name, its id, or the beginning of that.
func (v eventView) means(arg string) bool {
	return arg != "" && (v.Name == arg || strings.HasPrefix(v.ID, arg))
}

// print ends the reading when nothing can be written any more.
func (f *eventsFlags) print(v eventView, io cli.Stdio) error {
	var err error
	if f.json {
		err = printJSON(io.Out, v, "")
	} else {
		_, err = fmt.Fprintln(io.Out, v.line(f.allUsers, onTerminal(io.Out)))
	}
	if err != nil {
		return errEnough // it has been noticed
	}
	return nil
}
