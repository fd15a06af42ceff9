// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package history reads what happened to servers from the journal of systemd, by journalctl.
package history

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strconv"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/selection"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/show"
)

type Query struct {
	Follow, Json, AllUsers bool
	Since, Lines           string // for journalctl, "" for all
}

// loggedServer is a server that the journal is searched for.
type loggedServer struct{ id, name, uid string }

func (f *Query) Run(operands []string, io cli.Stdio) int {
	var matches []string
	switch len(operands) {
	case 0:
		matches = f.about("")
	case 1:
		subjects, err := f.find(operands[0])
		if errors.As(err, new(*selection.UnknownError)) {
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
	if f.Follow {
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
	if !any && !f.Json {
		io.None("no entries")
	}
	return cli.ExitOK
}

// arguments are those of journalctl before the matches.
func (f *Query) arguments() (args []string) {
	if f.Follow {
		args = append(args, "--follow")
	}
	switch {
	case f.Lines != "":
		args = append(args, "--lines="+f.Lines)
	case f.Follow && f.Since != "":
		args = append(args, "--no-tail")
	}
	if f.Since != "" {
		args = append(args, "--since="+f.Since)
	}
	return args
}

func (f *Query) print(line []byte, io cli.Stdio) error {
	if f.Json {
		line = show.SafeJSON(line)
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
func (f *Query) about(match string, kinds ...protocol.Event) []string {
	var uids []string
	if !f.AllUsers {
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
func (f *Query) find(arg string) (found []loggedServer, err error) {
	running, err := (&selection.Filter{AllUsers: f.AllUsers}).Choose([]string{arg})
	defer selection.Close(running)
	for _, s := range running {
		found = append(found, loggedServer{s.ID, s.Name, strconv.Itoa(s.UID)})
	}
	if err == nil || !errors.As(err, new(*selection.UnknownError)) {
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
