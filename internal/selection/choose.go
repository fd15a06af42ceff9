// SPDX-License-Identifier: Apache-2.0

package selection

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/mcpscope/mcpscope/internal/server/fleet"
)

// Choose returns the servers of the arguments, and closes all others. An argument is an id, the beginning of
// an id, or a name, which several servers may have. For root, its own servers come first; a name is refused
// if several other users have a server of that name.
func (f *Filter) Choose(args []string) ([]*fleet.Listed, error) {
	visible := *f
	visible.AllUsers = f.AllUsers || os.Getuid() == 0
	servers, err := visible.List()
	if err != nil && len(servers) == 0 {
		return nil, err
	}
	chosen := map[*fleet.Listed]bool{}
	for _, arg := range args {
		found, err := f.find(servers, arg)
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

// Servers are the servers of the arguments or, without arguments, all that the filter lets through.
func (f *Filter) Servers(args []string) ([]*fleet.Listed, error) {
	if len(args) > 0 {
		return f.Choose(args)
	}
	servers, err := f.List()
	if len(servers) > 0 {
		return servers, nil // stop all visible servers
	}
	return nil, err
}

// find searches the servers of the calling user before those of others.
func (f *Filter) find(servers []*fleet.Listed, arg string) ([]*fleet.Listed, error) {
	var first, others []*fleet.Listed
	for _, s := range servers {
		if f.AllUsers || s.UID == os.Getuid() {
			first = append(first, s)
		} else {
			others = append(others, s)
		}
	}
	found, err := find(first, arg)
	if !errors.As(err, new(*UnknownError)) {
		return found, err
	}
	found, err = find(others, arg)
	if err != nil {
		return nil, err
	}
	if haveSeveralUsers(found) {
		return nil, fmt.Errorf("several users have a server %q: give an id", arg)
	}
	return found, nil
}

func haveSeveralUsers(servers []*fleet.Listed) bool {
	return slices.ContainsFunc(servers, func(s *fleet.Listed) bool { return s.UID != servers[0].UID })
}

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
type UnknownError struct{ Arg string }

func (e *UnknownError) Error() string { return fmt.Sprintf("there is no server %q", e.Arg) }
