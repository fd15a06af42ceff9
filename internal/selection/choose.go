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
	all, err := visible.List()
	if err != nil && len(all) == 0 {
		return nil, err
	}
	meant := map[*fleet.Listed]bool{}
	for _, arg := range args {
		found, err := f.find(all, arg)
		if err != nil {
			Close(all)
			return nil, err
		}
		for _, s := range found {
			meant[s] = true
		}
	}
	return keep(all, func(s *fleet.Listed) bool { return meant[s] }), nil
}

func (f *Filter) find(all []*fleet.Listed, arg string) ([]*fleet.Listed, error) {
	var own, others []*fleet.Listed
	for _, s := range all {
		if f.AllUsers || s.UID == os.Getuid() {
			own = append(own, s)
		} else {
			others = append(others, s)
		}
	}
	found, err := find(own, arg)
	if !errors.As(err, new(*UnknownError)) {
		return found, err
	}
	found, err = find(others, arg)
	if err == nil && slices.ContainsFunc(found, func(s *fleet.Listed) bool { return s.UID != found[0].UID }) {
		err = fmt.Errorf("several users have a server %q: give an id", arg)
	}
	return found, err
}

// find prefers an id to a name, and a name to the beginning of an id.
func find(all []*fleet.Listed, arg string) ([]*fleet.Listed, error) {
	var named, begun []*fleet.Listed
	for _, s := range all {
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
		var parts []string
		for _, s := range begun {
			parts = append(parts, s.ID+" ("+s.Name+")")
		}
		return nil, fmt.Errorf("%q is the beginning of several ids: %s", arg, strings.Join(parts, ", "))
	}
	return nil, &UnknownError{arg}
}

// UnknownError: no server has this name or id.
type UnknownError struct{ Arg string }

func (e *UnknownError) Error() string { return fmt.Sprintf("there is no server %q", e.Arg) }

// Servers are those that are named or, if none is, all that the filter lets through.
func (f *Filter) Servers(operands []string) ([]*fleet.Listed, error) {
	if len(operands) == 0 {
		all, err := f.List()
		if len(all) > 0 {
			err = nil // stop all visible servers
		}
		return all, err
	}
	return f.Choose(operands)
}
