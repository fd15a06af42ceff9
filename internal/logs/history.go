// SPDX-License-Identifier: Apache-2.0

// Package logs finds what happened to servers in the journal of systemd. journalctl prints it: its library
// needs cgo.
package logs

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/selection"
	"github.com/mcpscope/mcpscope/internal/server/journal"
	"github.com/mcpscope/mcpscope/internal/server/names"
)

// Query selects entries, and how they are printed. The zero value selects all.
type Query struct {
	Follow bool
	JSON   bool
	Since  string // for journalctl, like Lines
	Lines  string
	// Project and Session are those of servers. The journal can't find a part of an id.
	Project, Session string
}

// Entries are those that a query selects.
type Entries struct {
	journal *Journal
	query   *Query
	matches []string // arguments of journalctl(1)
}

// Entries selects those of the servers of that name or id, or of all with "".
func (j *Journal) Entries(q *Query, called string) (*Entries, error) {
	selected := &Entries{journal: j, query: q, matches: q.eventsFor(j.uid, "")}
	if called == "" {
		return selected, nil
	}
	servers, err := j.find(q, called)
	if err != nil {
		return nil, err
	}
	var each [][]string
	for _, s := range servers {
		each = append(each, s.matches())
	}
	selected.matches = anyOf(each...)
	return selected, nil
}

// Any reports whether there is an entry.
func (e *Entries) Any() (bool, error) {
	args := append([]string{"--quiet", "--output=cat", "--lines=1"}, e.query.times()...)
	entry, err := exec.Command(e.journal.journalctl, append(args, e.matches...)...).Output()
	if err != nil {
		return false, journalctlError(err)
	}
	return len(entry) > 0, nil
}

// Become executes journalctl instead of this program, which prints the entries. It returns only if it cannot.
func (e *Entries) Become() error {
	words := append([]string{"journalctl"}, e.arguments()...)
	return fmt.Errorf("run journalctl: %w", unix.Exec(e.journal.journalctl, words, os.Environ()))
}

func (e *Entries) arguments() []string {
	return slices.Concat([]string{"--no-pager", "--all"}, e.query.flags(), e.matches)
}

// flags are those that say how entries are printed. A user who may not read all of the journal would get a
// notice about others' entries before each answer, unless journalctl is quiet.
func (q *Query) flags() []string {
	flags := []string{"--quiet", "--output=short-iso", "--no-hostname"}
	if q.JSON {
		flags = []string{"--quiet", "--output=json"}
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
	return append(flags, q.times()...)
}

func (q *Query) times() []string {
	if q.Since == "" {
		return nil
	}
	return []string{"--since=" + q.Since}
}

// find searches the servers that run first, whose start the journal may have lost; then the newest server in
// the journal that was started or not, or has ended, by that name or id.
func (j *Journal) find(q *Query, called string) ([]server, error) {
	running, err := runningServers(called)
	if !errors.As(err, new(*selection.UnknownError)) {
		return running, err
	}
	matches := q.eventsCalled(j.uid, called, journal.Started, journal.Failed, journal.Ended)
	ended, found, journalErr := j.newest(matches)
	if journalErr != nil {
		return nil, journalErr
	}
	if !found {
		return nil, j.withNames(err, q)
	}
	return []server{ended}, nil
}

// runningServers finds those of all users for root, as the journal does.
func runningServers(called string) (found []server, err error) {
	filter := selection.Filter{AllUsers: os.Getuid() == 0}
	running, err := filter.Choose([]string{called})
	defer selection.Close(running)
	for _, s := range running {
		found = append(found, server{id: s.ID, name: s.Name, uid: strconv.Itoa(s.UID)})
	}
	return found, err
}

// anyOf matches the entries of each list of matches. journalctl joins lists by "+".
func anyOf(lists ...[]string) (matches []string) {
	for i, list := range lists {
		if i > 0 {
			matches = append(matches, "+")
		}
		matches = append(matches, list...)
	}
	return matches
}

// eventsBy matches events of these kinds, or of all kinds, by these users. The journal records the uid of a
// writer, which a process cannot forge.
func eventsBy(uids []string, kinds ...journal.Event) (matches []string) {
	ids := journal.MessageIDs()
	if len(kinds) == 0 {
		kinds = slices.Sorted(maps.Keys(ids))
	}
	for _, kind := range kinds {
		matches = append(matches, "MESSAGE_ID="+ids[kind])
	}
	for _, uid := range uids {
		matches = append(matches, "_UID="+uid)
	}
	return matches
}

// eventsFor matches events that a user may see, all of them for root; with another match, unless that is "".
func (q *Query) eventsFor(uid int, match string, kinds ...journal.Event) []string {
	var uids []string
	if uid != 0 {
		uids = []string{strconv.Itoa(uid)}
	}
	matches := eventsBy(uids, kinds...)
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

// eventsCalled is eventsFor of the servers with that name or id.
func (q *Query) eventsCalled(uid int, called string, kinds ...journal.Event) []string {
	return anyOf(
		q.eventsFor(uid, "MCPSCOPE_ID="+called, kinds...),
		q.eventsFor(uid, "MCPSCOPE_NAME="+called, kinds...),
	)
}

// server is one that the journal is searched for.
type server struct{ id, name, uid string }

// matches are the server's events, by its user or root, and its stderr. Only a stream (_TRANSPORT=stdout)
// counts as that: another entry may have any identifier.
func (s server) matches() []string {
	events := append(eventsBy([]string{s.uid, "0"}), "MCPSCOPE_ID="+s.id)
	stderr := []string{
		"_UID=" + s.uid, "_TRANSPORT=stdout", "SYSLOG_IDENTIFIER=" + names.DirectoryName(s.name, s.id),
	}
	return anyOf(events, stderr)
}
