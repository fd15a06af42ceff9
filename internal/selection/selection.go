// SPDX-License-Identifier: Apache-2.0

// Package selection finds the servers and sessions that a command line means. Each command that takes names
// or the flags of a filter asks it, so a filter means the same everywhere.
//
// A session is the group of an agent with all its servers, as mcpscope gateway --session makes it. The id of
// a conversation is the client's, which has it in the environment of its servers.
package selection

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/mcpscope/mcpscope/internal/server/fleet"
	"github.com/mcpscope/mcpscope/internal/server/group"
)

// Selection is what a command line means: the words that a person has typed. The zero value means all servers
// and sessions of the calling user. No command takes all of the flags.
type Selection struct {
	// Names are names, ids, or beginnings of ids; without any all are meant.
	Names []string
	// All is the flag --all of a command that needs names or a filter.
	All bool

	AllUsers bool
	Client   string // pid or name; "" for all, as with the following
	Project  string
	// Conversation is its id, or the beginning of it.
	Conversation string

	Unit      string         // only orphans of clients in that unit
	OlderThan *time.Duration // only orphans and leaks that started longer ago; nil for all
}

// Found are the servers and sessions that a selection means.
type Found struct {
	Servers  []*fleet.Listed
	Sessions []*fleet.Session
	// Unlisted is why others that are meant may be missing. It is nil if names were given: a name without a
	// server is an error.
	Unlisted error
}

// Close closes all of them.
func (f *Found) Close() {
	Close(f.Servers)
	closeSessions(f.Sessions)
}

// Find returns the servers and sessions that the names mean, or all of them without names: as far as they are
// of these users and the filters let them through. A filter compares the client, the directory and the
// conversation of a server, and those of a session's agent. So a session is not meant because one of its
// servers is.
//
// Only by its whole id, root means a server or session of another user without AllUsers: a name could hit a
// bystander.
func (s *Selection) Find() (*Found, error) { return s.find(true) }

// FindServers is Find for a command that does not know sessions: their names mean nothing.
func (s *Selection) FindServers() (*Found, error) { return s.find(false) }

func (s *Selection) find(withSessions bool) (*Found, error) {
	users := s.Users()
	isWholeIDOfAny := len(s.Names) > 0 && os.Getuid() == 0
	if isWholeIDOfAny {
		users = group.Everyone()
	}
	servers, err := fleet.List(users)
	servers = keep(servers, s.matchesServer)
	if IsFailed(servers, err) {
		return nil, err
	}
	found := &Found{Servers: servers, Unlisted: err}
	if withSessions {
		sessions, err := fleet.Sessions(users) // an error leaves some out
		found.Sessions = keep(sessions, s.matchesSession)
		if len(s.Names) > 0 && IsFailed(sessions, err) {
			found.Close()
			return nil, err
		}
	}
	if len(s.Names) == 0 {
		return found, nil
	}
	named, err := s.findNamed(found)
	if err != nil {
		found.Close()
		return nil, err
	}
	return named, nil
}

// Users are those whose servers are meant.
func (s *Selection) Users() group.Users { return Whose(s.AllUsers) }

// Whose is the choice of a command: the calling user or, where its flags say so, everyone.
func Whose(everyone bool) group.Users {
	if everyone {
		return group.Everyone()
	}
	return group.CallingUser()
}

// IsFailed reports whether a list has failed as a whole. A user with too many directories does not make it
// fail: root may have servers, sessions or figures all the same.
func IsFailed[T any](found []T, err error) bool {
	isUnread := errors.As(err, new(*group.UnreadError))
	return err != nil && len(found) == 0 && !isUnread
}

// CountOthers returns how many servers of other users AllUsers would add. It is 0 without root: users see
// their own servers alone.
func (s *Selection) CountOthers() int {
	if s.AllUsers || os.Getuid() != 0 {
		return 0
	}
	servers, _ := fleet.List(group.OtherUsers()) // as far as they can be listed
	servers = keep(servers, s.matchesServer)
	defer Close(servers)
	return len(servers)
}

// IsNarrow reports whether a filter leaves out servers of a user.
func (s *Selection) IsNarrow() bool { return s.Client != "" || s.Project != "" || s.Conversation != "" }

// Traits are what a filter compares, of a server that runs or has ended, or of an agent.
type Traits struct {
	ClientPID             int
	ClientName            string
	Project, Conversation string
}

// Matches reports whether the filters let something with these traits through. It does not compare users and
// names.
func (s *Selection) Matches(of Traits) bool {
	isClient := s.Client == "" || s.Client == strconv.Itoa(of.ClientPID) || s.Client == of.ClientName
	isProject := s.Project == "" || s.Project == of.Project
	isConversation := s.Conversation == "" || strings.HasPrefix(of.Conversation, s.Conversation)
	return isClient && isProject && isConversation
}

func (s *Selection) matchesServer(l *fleet.Listed) bool {
	return s.Matches(Traits{
		ClientPID: l.Facts.Client.PID, ClientName: l.Facts.Client.Name,
		Project: l.Facts.Project, Conversation: l.Facts.Conversation,
	})
}

// matchesSession takes the agent for the client: it is that of the servers in its session.
func (s *Selection) matchesSession(of *fleet.Session) bool {
	agent := Traits{ClientName: of.Name, Project: of.Project, Conversation: of.Conversation}
	if isCalled(of, s.Client) {
		agent.ClientName = s.Client
	}
	if s.Client != "" {
		members, _ := of.Agent() // none, if it has just ended
		if len(members) > 0 {
			agent.ClientPID = members[0].PID
		}
	}
	return s.Matches(agent)
}

// OnlyServers leaves out what is kept: that is no server, and a command does something to it only by its
// name.
func (f *Found) OnlyServers() {
	f.Servers = keep(f.Servers, func(l *fleet.Listed) bool { return l.Kept == nil })
}

// None is a text for an empty list.
func (s *Selection) None() string {
	text := "no servers"
	if os.Getuid() == 0 && !s.AllUsers && !s.IsNarrow() {
		text += " of root"
	}
	return text + s.narrowing()
}

// narrowing has the filters as the end of a sentence, " of the project shop", and "" without any.
func (s *Selection) narrowing() (text string) {
	if s.Client != "" {
		text += " of the client " + s.Client
	}
	if s.Project != "" {
		text += " of the project " + s.Project
	}
	if s.Conversation != "" {
		text += " of the conversation " + s.Conversation
	}
	return text
}

// keep closes those that it leaves out.
func keep[T interface{ Close() }](all []T, wanted func(T) bool) []T {
	var kept []T
	for _, one := range all {
		if wanted(one) {
			kept = append(kept, one)
		} else {
			one.Close()
		}
	}
	return kept
}

// Close closes servers.
func Close(servers []*fleet.Listed) {
	for _, s := range servers {
		s.Close()
	}
}

func closeSessions(sessions []*fleet.Session) {
	for _, s := range sessions {
		s.Close()
	}
}
