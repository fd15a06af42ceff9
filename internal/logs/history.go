// SPDX-License-Identifier: Apache-2.0

// Package logs finds what happened to servers in the journal of systemd. journalctl prints it: its library
// needs cgo.
package logs

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/selection"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/journal"
	"github.com/mcpscope/mcpscope/internal/server/names"
)

// Query selects entries, and how they are printed. The zero value selects all of the calling user.
type Query struct {
	Servers selection.Selection // with at most one name
	Follow  bool
	JSON    bool
	Since   string // for journalctl, like Lines
	Lines   string
}

// Entries are those that a query selects.
type Entries struct {
	journal *Journal
	query   *Query
	matches []string // arguments of journalctl(1)
}

// Entries selects those of the servers that a query means.
func (j *Journal) Entries(q *Query) (*Entries, error) {
	j.asRoot = "sudo " + q.Servers.OfAllUsers().CommandLine("logs")
	selected := &Entries{journal: j, query: q}
	if len(q.Servers.Names) == 0 {
		selected.matches = j.events(&q.Servers, "")
		return selected, nil
	}
	servers, err := j.find(q)
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
	entry, err := e.journal.output(append(args, e.matches...))
	return err == nil && len(entry) > 0, err
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
func (j *Journal) find(q *Query) ([]server, error) {
	running, err := runningServers(&q.Servers)
	isOthers := errors.As(err, new(*selection.OtherUsersError))
	if !isOthers && !errors.As(err, new(*selection.UnknownError)) {
		return running, err
	}
	matches := j.eventsOfNamed(&q.Servers, journal.Started, journal.Failed, journal.Ended)
	ended, found, journalErr := j.newest(matches)
	if journalErr != nil {
		return nil, journalErr
	}
	if !found {
		return nil, j.withNames(err, q)
	}
	return []server{ended}, nil
}

func runningServers(s *selection.Selection) (servers []server, err error) {
	found, err := s.FindServers()
	if err != nil {
		return nil, err
	}
	defer found.Close()
	for _, l := range found.Servers {
		one := server{id: l.Placed.ID, name: l.Facts.Name, uid: strconv.Itoa(l.UID)}
		if l.Kept != nil { // its events are its server's
			one.id = l.Kept.From
			one.name = l.Kept.Server
		}
		servers = append(servers, one)
	}
	return servers, nil
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

// eventsAbout returns lists of matches: one of them matches each event about the servers of a choice of
// users. Root writes events about the servers of others, too, and names their owner.
func eventsAbout(users group.Users, kinds ...journal.Event) [][]string {
	uid, isSingle := users.Single()
	if !isSingle {
		return [][]string{eventsBy(nil, kinds...)}
	}
	owner := strconv.Itoa(uid)
	byRoot := append(eventsBy([]string{"0"}, kinds...), "MCPSCOPE_OWNER="+owner)
	if uid == 0 {
		return [][]string{byRoot}
	}
	return [][]string{eventsBy([]string{owner}, kinds...), byRoot}
}

// events matches the events about the servers that a selection means, without its names; with another match,
// unless that is "".
func (j *Journal) events(s *selection.Selection, match string, kinds ...journal.Event) []string {
	var filters []string
	if s.Project != "" {
		filters = append(filters, "MCPSCOPE_PROJECT="+s.Project)
	}
	for _, id := range j.conversations(s.Conversation) {
		filters = append(filters, "MCPSCOPE_CONVERSATION="+id)
	}
	if match != "" {
		filters = append(filters, match)
	}
	var lists [][]string
	for _, list := range eventsAbout(s.Users(), kinds...) {
		lists = append(lists, append(list, filters...))
	}
	return anyOf(lists...)
}

// eventsOfNamed is events for the servers with the only name or id of a selection. A whole id that root gives
// means a server of any user, as for servers that run.
func (j *Journal) eventsOfNamed(s *selection.Selection, kinds ...journal.Event) []string {
	name := s.Names[0]
	byID := s
	if os.Getuid() == 0 {
		byID = s.OfAllUsers()
	}
	return anyOf(
		j.events(byID, "MCPSCOPE_ID="+name, kinds...),
		j.events(s, "MCPSCOPE_NAME="+name, kinds...),
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
