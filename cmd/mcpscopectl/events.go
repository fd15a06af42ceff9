//go:build linux

package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/scope"
)

const eventsUsage = `Usage: mcpscope events [-f] [--since TIME] [--json] [--all-users] [NAME|ID…]

Prints what has happened to servers, the oldest first, as systemd's journal has it: started,
ended, killed, out-of-memory, pids-refused, frozen, thawed, swept, note. ID may be the beginning of one.

  -f, --follow   go on with what happens from now on, after the last ten
  --since TIME   from then on: a duration (2h), or what journalctl takes ("2026-11-20 8:00",
                 today)
  --json         a line of JSON for each
  --all-users    those of other users too (root alone)

Entries are written where there is a journal, and nobody waits for it: one that is full or
hangs loses them. mcpscope run --report writes the same of every end.
`

var noDeadline time.Time

// journalFlags are what events and logs have in common.
type journalFlags struct {
	follow   bool
	since    string // for journalctl, "" for all
	allUsers bool
}

func (f *journalFlags) set(fs *flag.FlagSet) {
	fs.BoolVar(&f.follow, "follow", false, "")
	fs.BoolVar(&f.follow, "f", false, "")
	fs.BoolVar(&f.allUsers, "all-users", false, "")
	fs.Func("since", "", func(s string) error {
		f.since = s
		if d, err := time.ParseDuration(s); err == nil {
			f.since = fmt.Sprintf("@%d", time.Now().Add(-d.Abs()).Unix())
		}
		return nil
	})
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

func (f *eventsFlags) flags() *flag.FlagSet {
	fs := newFlags("events")
	f.journalFlags.set(fs)
	fs.BoolVar(&f.json, "json", false, "")
	return fs
}

func eventsCommand(args []string, io cli.Stdio) int {
	var f eventsFlags
	operands, done, status := parseArgs(f.flags(), args, eventsUsage, io)
	if done {
		return status
	}
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
		for kind := range scope.MessageIDs {
			kinds = append(kinds, kind)
		}
	}
	line = append(line, f.matches()...)
	for _, kind := range kinds {
		line = append(line, "MESSAGE_ID="+scope.MessageIDs[kind])
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
