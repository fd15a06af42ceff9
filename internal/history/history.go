// SPDX-License-Identifier: Apache-2.0

// Package history finds what happened to servers in the journal of systemd. journalctl prints it: its library
// needs cgo.
package history

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/selection"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// Query says which entries are printed, and how.
type Query struct {
	Follow, JSON bool
	Since, Lines string // for journalctl, "" for all
	// Project and Session are those of servers, "" for all; the journal can't find a part of a session's id.
	Project, Session string
}

// server is one that the journal is searched for.
type server struct{ id, name, uid string }

// Run becomes journalctl: for the servers that are called so, or for all with "". It returns only if it
// cannot.
func (q *Query) Run(called string, io cli.Stdio) int {
	tool, err := cli.Lookup("journalctl")
	if err != nil || !systemd.JournalExists() {
		return io.CannotWithHint("read the journal", systemd.ErrNoJournal,
			"install systemd-journald and journalctl, or use mcpscope run --report FILE")
	}
	matches := q.events("")
	if called != "" {
		servers, err := q.find(tool, called)
		if err != nil {
			return io.Cannot("print logs", err)
		}
		matches = nil
		for _, s := range servers {
			matches = append(append(matches, "+"), s.matches()...)
		}
		matches = matches[1:]
	}
	argv := append(append([]string{"journalctl", "--no-pager", "--all"}, q.flags(io)...), matches...)
	return io.Cannot("run journalctl", unix.Exec(tool, argv, os.Environ()))
}

func (q *Query) flags(io cli.Stdio) []string {
	flags := []string{"--output=short-iso", "--no-hostname"}
	if q.JSON {
		flags = []string{"--output=json"}
	}
	if !cli.OnTerminal(io.Out) {
		flags = append(flags, "--quiet") // without "No entries"
	}
	if q.Follow {
		flags = append(flags, "--follow")
	}
	switch {
	case q.Lines != "":
		flags = append(flags, "--lines="+q.Lines)
	case q.Follow && q.Since != "":
		flags = append(flags, "--no-tail")
	}
	if q.Since != "" {
		flags = append(flags, "--since="+q.Since)
	}
	return flags
}

// eventsOf are the matches of events of these kinds, or of all, by these users. The journal records the uid
// of a writer, which a process cannot forge.
func eventsOf(uids []string, kinds ...protocol.Event) (matches []string) {
	ids := protocol.MessageIDs()
	if len(kinds) == 0 {
		kinds = slices.Collect(maps.Keys(ids))
	}
	for _, kind := range kinds {
		matches = append(matches, "MESSAGE_ID="+ids[kind])
	}
	for _, uid := range uids {
		matches = append(matches, "_UID="+uid)
	}
	return matches
}

// events are the matches of events that the caller may see, and for root all; with another match, if that is
// not "".
func (q *Query) events(match string, kinds ...protocol.Event) []string {
	var uids []string
	if os.Getuid() != 0 {
		uids = []string{strconv.Itoa(os.Getuid())}
	}
	matches := eventsOf(uids, kinds...)
	if q.Project != "" {
		matches = append(matches, "MCPSCOPE_PROJECT="+q.Project)
	}
	if q.Session != "" {
		matches = append(matches, "MCPSCOPE_SESSION="+q.Session)
	}
	if match != "" {
		matches = append(matches, match)
	}
	return matches
}

// matches are the server's events, by its user or root, and its stderr. Only a stream (_TRANSPORT=stdout)
// counts as that: another entry may have any identifier.
func (s server) matches() []string {
	return append(append(eventsOf([]string{s.uid, "0"}), "MCPSCOPE_ID="+s.id),
		"+", "_UID="+s.uid, "_TRANSPORT=stdout", "SYSLOG_IDENTIFIER="+protocol.DirectoryName(s.name, s.id))
}

// find looks among the servers that run first, whose start the journal may have lost; then for the newest one
// in the journal that was started, or has ended, by that name or id. journalctl reads backwards, and ends
// with the first entry.
func (q *Query) find(tool, called string) (found []server, err error) {
	running, err := (&selection.Filter{}).Choose([]string{called})
	defer selection.Close(running)
	for _, s := range running {
		found = append(found, server{s.ID, s.Name, strconv.Itoa(s.UID)})
	}
	if err == nil || !errors.As(err, new(*selection.UnknownError)) {
		return found, err
	}
	kinds := []protocol.Event{protocol.EventStarted, protocol.EventEnded}
	events := q.events("MCPSCOPE_ID="+called, kinds...)
	args := append([]string{"--quiet", "--output=json", "--lines=1"}, events...)
	args = append(append(args, "+"), q.events("MCPSCOPE_NAME="+called, kinds...)...)
	line, journalErr := exec.Command(tool, args...).Output()
	var e struct {
		UID  string `json:"_UID"`
		ID   string `json:"MCPSCOPE_ID"`
		Name string `json:"MCPSCOPE_NAME"`
	}
	switch failed, is := errors.AsType[*exec.ExitError](journalErr); {
	case is:
		return nil, fmt.Errorf("journalctl: %s", strings.TrimSpace(string(failed.Stderr)))
	case journalErr != nil:
		return nil, journalErr
	case json.Unmarshal(line, &e) != nil || e.ID == "": // a field that is not text is not of mcpscope
		return nil, err
	}
	return []server{{e.ID, e.Name, e.UID}}, nil
}
