// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

type logsFlags struct {
	follow, json, allUsers bool
	since, lines           string // for journalctl, "" for all
}

func logsCommand(io cli.Stdio) *cobra.Command {
	var f logsFlags
	c := command(spec{
		use: "logs [NAME|ID] [flags]", short: "print what happened to servers, and what they wrote to stderr", operands: servers,
		examples: `  mcpscope logs --since 2h
  mcpscope logs git -n 50
  mcpscope logs -f git
`,
		long: `Prints the entries of systemd's journal about servers, the oldest first: started,
ended, killed, out of memory, frozen, thawed, asked to stop, swept, notes. Of one
server also its stderr, if it was started with --stderr journal, by mcpscope run or
below mcpscope gateway. A name means the servers of that name that run, or the newest
one that has ended. ID may be the beginning of one if that server runs.

mcpscope writes entries where there is a journal, and never waits for it: entries are
lost when it is full or hangs. mcpscope run --report writes every end to a file. The
journal drops empty lines and cuts those of more than 48 KiB (journald.conf, LineMax=).`,
	}, func(operands []string) int { return f.run(operands, io) })
	fs := c.Flags()
	fs.BoolVarP(&f.follow, "follow", "f", false, "print new entries until ^C, after the last ten")
	fs.Func("since", "entries from then on: a duration ago (2h, 1d), or what journalctl takes (today, \"2026-11-20 8:00\"): `TIME`",
		func(s string) error {
			f.since = s
			if d, err := protocol.ParseDuration(s); err == nil {
				f.since = fmt.Sprintf("@%d", time.Now().Add(-d.Abs()).Unix())
			}
			return nil
		})
	fs.FuncP("lines", "n", "the last `N` entries only", func(s string) error {
		if _, err := strconv.ParseUint(s, 10, 31); err != nil {
			return fmt.Errorf("%q is not a number of entries", s)
		}
		f.lines = s
		return nil
	})
	allUsers(fs, &f.allUsers)
	fs.BoolVar(&f.json, "json", false, "the JSON of journalctl, a line for each entry")
	return c
}

// loggedServer is a server that the journal is searched for.
type loggedServer struct{ id, name, uid string }

func (f *logsFlags) run(operands []string, io cli.Stdio) int {
	var matches []string
	switch len(operands) {
	case 0:
		matches = f.about("")
	case 1:
		subjects, err := f.find(operands[0])
		if errors.As(err, new(*unknownError)) {
			return io.Cannot("print logs", err)
		}
		if err != nil {
			return cannotRead(io, err)
		}
		for _, s := range subjects {
			if len(matches) > 0 {
				matches = append(matches, "+")
			}
			matches = append(matches, s.matches()...)
		}
	default:
		return io.Mistake("logs", "one server at most: give one name or id, or none for all")
	}
	if f.follow {
		go endWithReader()
	}
	any := false
	err := readJournal(append(f.arguments(), matches...), func(line []byte) error {
		any = true
		return f.print(line, io)
	})
	if err != nil {
		return cannotRead(io, err)
	}
	if !any && !f.json {
		sayNone(io.Out, "no entries")
	}
	return cli.ExitOK
}

// arguments are those of journalctl before the matches.
func (f *logsFlags) arguments() (args []string) {
	if f.follow {
		args = append(args, "--follow")
	}
	switch {
	case f.lines != "":
		args = append(args, "--lines="+f.lines)
	case f.follow && f.since != "":
		args = append(args, "--no-tail")
	}
	if f.since != "" {
		args = append(args, "--since="+f.since)
	}
	return args
}

func (f *logsFlags) print(line []byte, io cli.Stdio) error {
	if f.json {
		line = bytes.TrimSuffix(line, []byte("\n"))
		safe := escapedJSON(*bytes.NewBuffer(line), cli.Acts)
		line = append(safe.Bytes(), '\n')
	} else {
		var e entry
		if json.Unmarshal(line, &e) != nil {
			return nil
		}
		line = []byte(e.line() + "\n")
	}
	if _, err := io.Out.Write(line); err != nil {
		return errEnough // cli.Output reports it
	}
	return nil
}

// events are the matches of all events. The journal records the uid of the writer, which a process cannot forge.
func events(uids []string, kinds ...protocol.Event) (matches []string) {
	ids := protocol.MessageIDs()
	for kind, id := range ids {
		if len(kinds) == 0 || slices.Contains(kinds, kind) {
			matches = append(matches, "MESSAGE_ID="+id)
		}
	}
	for _, uid := range uids {
		matches = append(matches, "_UID="+uid)
	}
	return matches
}

// about are the matches of events of servers whose users may be seen; with another match, if that is not "".
func (f *logsFlags) about(match string, kinds ...protocol.Event) []string {
	var uids []string
	if !f.allUsers {
		uids = []string{strconv.Itoa(os.Getuid())}
	}
	matches := events(uids, kinds...)
	if match != "" {
		matches = append(matches, match)
	}
	return matches
}

// matches are the server's events, by its user or root, and its stderr. Only a stream (_TRANSPORT=stdout) counts as that:
// another entry may have any identifier.
func (s loggedServer) matches() []string {
	return append(append(events([]string{s.uid, "0"}), protocol.FieldID+"="+s.id),
		"+", "_UID="+s.uid, "_TRANSPORT=stdout", "SYSLOG_IDENTIFIER="+protocol.LogIdentifier(s.name, s.id))
}

// find looks among the servers that run first, whose start the journal may have lost; then for the newest one in the
// journal that was started, or has ended, by that name or id.
func (f *logsFlags) find(arg string) (found []loggedServer, err error) {
	running, err := (&filter{allUsers: f.allUsers}).choose([]string{arg})
	defer closeAll(running)
	for _, s := range running {
		found = append(found, loggedServer{s.ID, s.Name, strconv.Itoa(s.UID)})
	}
	if err == nil || !errors.As(err, new(*unknownError)) {
		return found, err
	}
	kinds := []protocol.Event{protocol.EventStarted, protocol.EventEnded, protocol.EventKilled}
	args := append([]string{"--lines=1"}, f.about(protocol.FieldID+"="+arg, kinds...)...)
	args = append(append(args, "+"), f.about(protocol.FieldName+"="+arg, kinds...)...)
	journalErr := readJournal(args, func(line []byte) error {
		var e entry
		if json.Unmarshal(line, &e) == nil {
			found = []loggedServer{{string(e.ID), string(e.Name), e.UID}}
		}
		return nil
	})
	switch {
	case journalErr != nil:
		return nil, journalErr
	case len(found) == 0:
		return nil, err
	}
	return found, nil
}
