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

// Choose returns the servers of the arguments, and closes all others. An argument is an id, the beginning of
// an id, or a name, which several servers may have. Without AllUsers, root gives a server of another user by
// its whole id: a name or the beginning of an id could hit a bystander.
func (f *Filter) Choose(args []string) ([]*fleet.Listed, error) {
	visible := *f
	visible.AllUsers = f.AllUsers || os.Getuid() == 0
	servers, errList := visible.List()
	if IsFailed(servers, errList) {
		return nil, errList
	}
	chosen := map[*fleet.Listed]bool{}
	for _, arg := range args {
		found, err := f.find(servers, arg)
		if errors.As(err, new(*UnknownError)) && errList != nil { // it may be one that was not listed
			err = errors.Join(err, errList)
		}
		if err != nil {
			Close(servers)
			return nil, err
		}
		for _, s := range found {
			chosen[s] = true
		}
	}
	return keep(servers, func(s *fleet.Listed) bool { return chosen[s] }), nil
}

// find searches the servers of the calling user or, with AllUsers, all of them. A whole id finds the
// server of any user.
func (f *Filter) find(servers []*fleet.Listed, arg string) ([]*fleet.Listed, error) {
	var included, others []*fleet.Listed
	for _, s := range servers {
		switch {
		case f.includesUser(s.UID):
			included = append(included, s)
		case s.ID == arg:
			return []*fleet.Listed{s}, nil
		default:
			others = append(others, s)
		}
	}
	found, err := find(included, arg)
	unknown, isUnknown := errors.AsType[*UnknownError](err)
	if !isUnknown {
		return found, err
	}
	called := 0
	for _, s := range others {
		if s.Name == arg {
			called++
		}
	}
	if called > 0 {
		err = &OtherUsersError{Arg: arg, Servers: called}
		return nil, remedy.With(err, "add --all-users, or give an id: mcpscope ls --all-users")
	}
	return nil, withNames(unknown, included)
}

// includesUser reports whether a name can mean a server or session of that user.
func (f *Filter) includesUser(uid int) bool { return f.AllUsers || uid == os.Getuid() }

// find prefers an id to a name, and a name to the beginning of an id.
func find(servers []*fleet.Listed, arg string) ([]*fleet.Listed, error) {
	var named, begun []*fleet.Listed
	for _, s := range servers {
		switch {
		case s.ID == arg:
			return []*fleet.Listed{s}, nil
		case s.Name == arg:
			named = append(named, s)
		case arg != "" && strings.HasPrefix(s.ID, arg):
			begun = append(begun, s)
		}
	}
	switch {
	case len(named) > 0:
		return named, nil
	case len(begun) == 1:
		return begun, nil
	case len(begun) > 1:
		var ids []string
		for _, s := range begun {
			ids = append(ids, s.ID+" ("+s.Name+")")
		}
		return nil, fmt.Errorf("%q is the beginning of several ids: %s", arg, strings.Join(ids, ", "))
	}
	return nil, &UnknownError{Arg: arg}
}

// UnknownError is about a name or id that no server has.
type UnknownError struct {
	Arg    string
	IsNear bool // to the name of a server or a session
}

func (e *UnknownError) Error() string { return fmt.Sprintf("there is no server %q", e.Arg) }

// OtherUsersError is about a name that only servers of other users have.
type OtherUsersError struct {
	Arg     string
	Servers int // of that name
}

func (e *OtherUsersError) Error() string {
	return fmt.Sprintf("root has no server %q, but other users have %d", e.Arg, e.Servers)
}
