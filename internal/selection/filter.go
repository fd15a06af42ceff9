// SPDX-License-Identifier: Apache-2.0

// Package selection finds the servers that a command means: by name, id, client and user.
package selection

import (
	"errors"
	"os"
	"strconv"
	"strings"

	"github.com/mcpscope/mcpscope/internal/server/fleet"
	"github.com/mcpscope/mcpscope/internal/server/group"
)

// Filter selects servers. The zero value selects those of the calling user.
type Filter struct {
	AllUsers bool
	Client   string // pid or name; "" for all, as with the following
	Project  string
	Session  string // the id of a client's conversation, or its beginning
}

// Whose is the choice of a command: the calling user or, where its flags say so, everyone.
func Whose(everyone bool) group.Users {
	if everyone {
		return group.Everyone()
	}
	return group.CallingUser()
}

// List returns the servers that the filter lets through. It returns servers and an error if only some could
// be listed.
func (f *Filter) List() ([]*fleet.Listed, error) {
	servers, err := fleet.List(Whose(f.AllUsers))
	return keep(servers, f.letsThrough), err
}

// IsFailed reports whether a list has failed as a whole. A user with too many directories does not make it
// fail: root may have servers, sessions or figures all the same.
func IsFailed[T any](found []T, err error) bool {
	isUnread := errors.As(err, new(*group.UnreadError))
	return err != nil && len(found) == 0 && !isUnread
}

// CountOthers returns how many servers of other users AllUsers would add. It is 0 without root:
// users see their own servers alone.
func (f *Filter) CountOthers() int {
	if f.AllUsers || os.Getuid() != 0 {
		return 0
	}
	servers, _ := fleet.List(group.OtherUsers()) // as far as they can be listed
	servers = keep(servers, f.letsThrough)
	defer Close(servers)
	return len(servers)
}

// IsNarrow reports whether it leaves out servers of a user.
func (f *Filter) IsNarrow() bool { return f.Client != "" || f.Project != "" || f.Session != "" }

func (f *Filter) letsThrough(s *fleet.Listed) bool {
	return f.Matches(Traits{
		ClientPID: s.Client.PID, ClientName: s.Client.Name, Project: s.Project, Session: s.Session,
	})
}

// Traits are the facts that a filter compares, of a server that runs or has ended.
type Traits struct {
	ClientPID        int
	ClientName       string
	Project, Session string
}

// Matches reports whether the filter lets a server through. It does not compare users.
func (f *Filter) Matches(of Traits) bool {
	isClient := f.Client == "" || f.Client == strconv.Itoa(of.ClientPID) || f.Client == of.ClientName
	isProject := f.Project == "" || f.Project == of.Project
	isSession := f.Session == "" || strings.HasPrefix(of.Session, f.Session)
	return isClient && isProject && isSession
}

// None is a text for an empty list.
func (f *Filter) None() string {
	text := "no servers"
	if os.Getuid() == 0 && !f.AllUsers && !f.IsNarrow() {
		text += " of root"
	}
	if f.Client != "" {
		text += " of the client " + f.Client
	}
	if f.Project != "" {
		text += " of the project " + f.Project
	}
	if f.Session != "" {
		text += " of the session " + f.Session
	}
	return text
}

// keep closes the servers that it leaves out.
func keep(servers []*fleet.Listed, wanted func(*fleet.Listed) bool) []*fleet.Listed {
	var kept []*fleet.Listed
	for _, s := range servers {
		if wanted(s) {
			kept = append(kept, s)
		} else {
			s.Close()
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
