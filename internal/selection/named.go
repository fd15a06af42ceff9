// SPDX-License-Identifier: Apache-2.0

package selection

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/mcpscope/mcpscope/internal/remedy"
	"github.com/mcpscope/mcpscope/internal/server/fleet"
)

// findNamed picks what the names mean, and closes the rest. After an error nothing is closed.
func (s *Selection) findNamed(among *Found) (*Found, error) {
	servers := map[*fleet.Listed]bool{}
	sessions := map[*fleet.Session]bool{}
	for _, name := range s.Names {
		meantServers, meantSession, err := s.findName(name, among)
		if err != nil {
			return nil, err
		}
		for _, l := range meantServers {
			servers[l] = true
		}
		if meantSession != nil {
			sessions[meantSession] = true
		}
	}
	return &Found{
		Servers:  keep(among.Servers, func(l *fleet.Listed) bool { return servers[l] }),
		Sessions: keep(among.Sessions, func(of *fleet.Session) bool { return sessions[of] }),
	}, nil
}

// findName returns what one name means: servers, or a session. A name that several servers have means all of
// them, but nothing may mean a server and a session, or several sessions: these are whole agents.
func (s *Selection) findName(name string, among *Found) ([]*fleet.Listed, *fleet.Session, error) {
	sessions, how := s.findSessions(name, among.Sessions)
	if how == byID {
		return nil, sessions[0], nil
	}
	servers, err := s.findServers(name, among)
	isUnknown := errors.As(err, new(*UnknownError)) || errors.As(err, new(*OtherUsersError))
	switch {
	case len(sessions) == 0:
		return servers, nil, err
	case isUnknown && len(sessions) == 1:
		return nil, sessions[0], nil
	case isUnknown:
		err := fmt.Errorf("several sessions can be meant by %q", name)
		return nil, nil, remedy.With(err, "give one of the ids "+idsOf(sessions))
	case err == nil && how == byBeginning && servers[0].Facts.Name == name: // a name comes first
		return servers, nil, nil
	}
	err = fmt.Errorf("a server and a session can be meant by %q", name)
	return nil, nil, remedy.With(err, "give an id: that of the session is "+idsOf(sessions))
}

// match is what a name has in common with what it means.
type match int

const (
	byBeginning match = iota // of the id
	byName
	byID
)

// findSessions returns the session with that id, of any user; otherwise those of that name; otherwise those
// whose ids begin so.
func (s *Selection) findSessions(name string, sessions []*fleet.Session) ([]*fleet.Session, match) {
	var called, begun []*fleet.Session
	for _, of := range sessions {
		isIncluded := s.includesUser(of.UID)
		switch {
		case of.ID == name:
			return []*fleet.Session{of}, byID
		case isIncluded && isCalled(of, name):
			called = append(called, of)
		case isIncluded && name != "" && strings.HasPrefix(of.ID, name):
			begun = append(begun, of)
		}
	}
	if len(called) > 0 {
		return called, byName
	}
	return begun, byBeginning
}

// findServers is the same for servers. Only one id may begin so.
func (s *Selection) findServers(name string, among *Found) ([]*fleet.Listed, error) {
	var called, begun []*fleet.Listed
	others := 0 // servers of other users with that name
	for _, l := range among.Servers {
		isIncluded := s.includesUser(l.UID)
		switch {
		case l.Placed.ID == name:
			return []*fleet.Listed{l}, nil
		case isIncluded && l.Facts.Name == name:
			called = append(called, l)
		case isIncluded && name != "" && strings.HasPrefix(l.Placed.ID, name):
			begun = append(begun, l)
		case l.Facts.Name == name:
			others++
		}
	}
	called = preferServers(called)
	switch {
	case len(called) > 0:
		return called, nil
	case len(begun) == 1:
		return begun, nil
	case len(begun) > 1:
		var ids []string
		for _, l := range begun {
			ids = append(ids, l.Placed.ID+" ("+l.Facts.Name+")")
		}
		return nil, fmt.Errorf("%q is the beginning of several ids: %s", name, strings.Join(ids, ", "))
	case others > 0:
		everyone := Selection{
			AllUsers: true, Client: s.Client, Project: s.Project, Conversation: s.Conversation,
		}
		err := &OtherUsersError{Name: name, Servers: others, filters: s.narrowing()}
		return nil, remedy.With(err, "add --all-users, or give an id: "+everyone.CommandLine("ls"))
	}
	var err error = withNames(&UnknownError{Name: name, filters: s.narrowing()}, s, among)
	if among.Unlisted != nil { // it may be one of those
		err = errors.Join(err, among.Unlisted)
	}
	return nil, err
}

// preferServers leaves out what is kept where a server has the same name: a person who stops the server may
// not know of it.
func preferServers(called []*fleet.Listed) []*fleet.Listed {
	var servers []*fleet.Listed
	for _, l := range called {
		if l.Kept == nil {
			servers = append(servers, l)
		}
	}
	if len(servers) == 0 {
		return called
	}
	return servers
}

// includesUser reports whether a name can mean a server or session of that user.
func (s *Selection) includesUser(uid int) bool { return s.AllUsers || uid == os.Getuid() }

// isCalled compares the name of a session, which has "_" for each "-".
func isCalled(of *fleet.Session, name string) bool {
	return name != "" && of.Name == strings.ReplaceAll(name, "-", "_")
}

func idsOf(sessions []*fleet.Session) string {
	var ids []string
	for _, of := range sessions {
		ids = append(ids, of.ID)
	}
	slices.Sort(ids)
	return strings.Join(ids, ", ")
}

// UnknownError is about a name or id that no server has.
type UnknownError struct {
	Name    string
	IsNear  bool   // to the name of a server or a session
	filters string // the end of a sentence
}

func (e *UnknownError) Error() string {
	return fmt.Sprintf("there is no server %q%s", e.Name, e.filters)
}

// OtherUsersError is about a name that only servers of other users have.
type OtherUsersError struct {
	Name    string
	Servers int // of that name
	filters string
}

func (e *OtherUsersError) Error() string {
	const text = "root has no server %q%s, but other users have %d"
	return fmt.Sprintf(text, e.Name, e.filters, e.Servers)
}
