// SPDX-License-Identifier: Apache-2.0

package selection

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/mcpscope/mcpscope/internal/remedy"
	"github.com/mcpscope/mcpscope/internal/server/fleet"
)

// Chosen are the servers and the sessions that arguments name.
type Chosen struct {
	Servers  []*fleet.Listed
	Sessions []*fleet.Session
	Unlisted error // about others that may be meant: nil with arguments
}

// ChooseAll returns all servers that the filter lets through, as far as they can be listed.
func (f *Filter) ChooseAll() (*Chosen, error) {
	servers, err := f.List()
	if IsFailed(servers, err) {
		return nil, err
	}
	return &Chosen{Servers: servers, Unlisted: err}, nil
}

// Close closes all of them.
func (c *Chosen) Close() {
	Close(c.Servers)
	CloseSessions(c.Sessions)
}

// CloseSessions closes sessions.
func CloseSessions(sessions []*fleet.Session) {
	for _, s := range sessions {
		s.Close()
	}
}

// ListSessions returns the sessions of the users that the filter includes.
func (f *Filter) ListSessions() ([]*fleet.Session, error) { return fleet.Sessions(Whose(f.AllUsers)) }

// ChooseAny is Choose for arguments that may name sessions, too: by an id, the beginning of an id, or a name
// that no server and no other session has. So it never means more than a person has named.
func (f *Filter) ChooseAny(args []string) (*Chosen, error) {
	visible := *f
	visible.AllUsers = f.AllUsers || os.Getuid() == 0
	sessions, err := visible.ListSessions()
	if IsFailed(sessions, err) {
		return nil, err
	}
	named := map[*fleet.Session]bool{}
	var others []string // of servers
	for _, arg := range args {
		found, err := f.findSession(sessions, arg)
		switch {
		case err != nil:
			CloseSessions(sessions)
			return nil, err
		case found == nil:
			others = append(others, arg)
		default:
			named[found] = true
		}
	}
	chosen := &Chosen{}
	for _, s := range sessions {
		if named[s] {
			chosen.Sessions = append(chosen.Sessions, s)
		} else {
			s.Close()
		}
	}
	if len(others) > 0 {
		chosen.Servers, err = f.Choose(others)
		err = withSessions(err, sessionNames(f, sessions))
	}
	if err != nil {
		chosen.Close()
		return nil, err
	}
	return chosen, nil
}

// findSession returns nil if the argument names no session. An argument that names a server as well is an
// error, but for a whole id.
func (f *Filter) findSession(sessions []*fleet.Session, arg string) (*fleet.Session, error) {
	var called, begun []*fleet.Session
	for _, s := range sessions {
		if s.ID == arg { // of any user
			return s, nil
		}
		isIncluded := f.includesUser(s.UID)
		switch {
		case isIncluded && isCalled(s, arg):
			called = append(called, s)
		case isIncluded && arg != "" && strings.HasPrefix(s.ID, arg):
			begun = append(begun, s)
		}
	}
	found := called
	if len(found) == 0 {
		found = begun
	}
	if len(found) == 0 {
		return nil, nil
	}
	servers, err := f.Choose([]string{arg})
	Close(servers)
	isUnknown := errors.As(err, new(*UnknownError)) || errors.As(err, new(*OtherUsersError))
	switch {
	case isUnknown && len(found) == 1:
		return found[0], nil
	case isUnknown:
		err := fmt.Errorf("several sessions can be meant by %q", arg)
		return nil, remedy.With(err, "give one of the ids "+idsOf(found))
	case err == nil && len(called) == 0 && servers[0].Name == arg: // it comes before the beginning of an id
		return nil, nil
	}
	err = fmt.Errorf("a server and a session can be meant by %q", arg)
	return nil, remedy.With(err, "give an id: that of the session is "+idsOf(found))
}

// sessionNames returns the names of the sessions that a name can mean.
func sessionNames(f *Filter, sessions []*fleet.Session) (names []string) {
	for _, s := range sessions {
		if f.includesUser(s.UID) {
			names = append(names, s.Name)
		}
	}
	return names
}

// isCalled compares the name of a session, which has "_" for each "-".
func isCalled(s *fleet.Session, arg string) bool {
	return arg != "" && s.Name == strings.ReplaceAll(arg, "-", "_")
}

func idsOf(sessions []*fleet.Session) string {
	var ids []string
	for _, s := range sessions {
		ids = append(ids, s.ID)
	}
	return strings.Join(ids, ", ")
}
