// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
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

var noDeadline time.Time

// journalFlags are what events and logs have in common.
type journalFlags struct {
	follow   bool
	since    string // for journalctl, "" for all
	allUsers bool
}

func (f *journalFlags) set(fs *pflag.FlagSet, after string) {
	fs.BoolVarP(&f.follow, "follow", "f", false, "go on with what happens from now on, "+after)
	fs.Func("since", "from then on: a duration (2h), or what journalctl takes (\"2026-11-20 8:00\", today): `TIME`", func(s string) error {
		f.since = s
		if d, err := time.ParseDuration(s); err == nil {
			f.since = fmt.Sprintf("@%d", time.Now().Add(-d.Abs()).Unix())
		}
		return nil
	})
	allUsers(fs, &f.allUsers)
}

// matches: what the journal says of the writer's uid nobody can forge.
func (f *journalFlags) matches() []string {
	if f.allUsers {
		return nil
	}
	return []string{"_UID=" + strconv.Itoa(os.Getuid())}
}

type eventsFlags struct {
	journalFlags
	json bool
}

func eventsCommand(io cli.Stdio) *cobra.Command {
	var f eventsFlags
	c := command(spec{
		use: "events [NAME|ID…] [flags]", short: "print what has happened to servers", operands: servers,
		examples: `  mcpscope events --since 2h
  mcpscope events -f git
`,
		long: `Prints what has happened to servers, the oldest first, as systemd's journal has it:
started, ended, killed, out-of-memory, pids-refused, frozen, thawed, swept, note. ID
may be the beginning of one.

Entries are written where there is a journal, and nobody waits for it: one that is
full or hangs loses them. mcpscope run --report writes the same of every end.`,
	}, func(operands []string) int { return f.run(operands, io) })
	f.journalFlags.set(c.Flags(), "after the last ten")
	c.Flags().BoolVar(&f.json, "json", false, "a line of JSON for each")
	return c
}

func (f *eventsFlags) run(operands []string, io cli.Stdio) int {
	var line []string
	switch {
	case f.follow && f.since == "":
		line = append(line, "--follow", "--lines=10")
	case f.follow:
		line = append(line, "--follow", "--no-tail")
	}
	if f.since != "" {
		line = append(line, "--since="+f.since)
	}
	if f.follow {
		go endWithReader()
	}
	err := f.read(line, func(v eventView) error {
		if len(operands) == 0 || slices.ContainsFunc(operands, v.means) {
			f.print(v, io)
		}
		return nil
	})
	if err != nil {
		return cannotRead(io, err)
	}
	return cli.ExitOK
}

// read gives each event to the function.
func (f *journalFlags) read(line []string, each func(eventView) error, kinds ...scope.Event) error {
	if len(kinds) == 0 {
		for kind := range scope.MessageIDs() {
			kinds = append(kinds, kind)
		}
	}
	line = append(line, f.matches()...)
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

func (f *eventsFlags) print(v eventView, io cli.Stdio) {
	if f.json {
		_ = cli.PrintJSON(io.Out, v, "") // whoever reads has gone
		return
	}
	fmt.Fprintln(io.Out, v.line(f.allUsers))
}
