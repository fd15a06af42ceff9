// SPDX-License-Identifier: Apache-2.0

package launcher

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/admission"
	"github.com/mcpscope/mcpscope/internal/server/backend"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/names"
)

// errGuard: the guard could not be started, so no other backend would help.
var errGuard = errors.New("start the guard")

// placeError is why a backend can't be had, or a place of it does not work.
type placeError struct {
	backend names.Backend
	err     error
	isTried bool // a place that there is
}

// isBroken reports whether the error of a place is that of a backend which this host has, and which does not
// work. A manager can be busy, or not be meant for us. A read-only mount, as in a container, has no groups
// for us.
func (e *placeError) isBroken() bool {
	makesGroups := e.backend == names.Delegated || e.backend == names.Cgroup
	return e.isTried && makesGroups && !errors.Is(e.err, unix.EROFS)
}

func (e *placeError) Error() string { return fmt.Sprintf("%s: %v", e.backend, e.err) }

func (e *placeError) Unwrap() error { return e.err }

// eachPlace calls try with the places that the server may be in, the best first, until one works, or no guard
// can be started. missed has the errors of the places before. The server of a client in a session is in that,
// too.
func (s *Server) eachPlace(try func(p backend.Place, missed []error) error) error {
	return s.eachPlaceIn(backend.FindSession, func(p backend.Place, missed []error) error {
		if p.IsTree() {
			if err := group.CanSignal(); err != nil {
				return err
			}
		}
		return try(p, missed)
	})
}

// noSession finds no session: the group is made outside of the session of its client.
func noSession(*cgroup.Group, string) *backend.Session { return nil }

func (s *Server) eachPlaceIn(
	findSession func(root *cgroup.Group, path string) *backend.Session,
	try func(p backend.Place, missed []error) error,
) error {
	if s.Places.Require && s.Places.Backend == names.Tree {
		return errors.New("the backend tree is weaker than --require " +
			"(or MCPSCOPE_REQUIRE, or mcpscope.toml) allows")
	}
	if err := proc.Ours(); err != nil {
		return err
	}
	root, path, err := group.Position(s.Gateway.Beside)
	hasCgroup := err == nil
	var missed []error
	if !hasCgroup && s.Places.Backend != names.Tree { // the only one that needs no cgroup
		goal := "find our cgroup"
		if errors.Is(err, proc.ErrNoCgroup2) {
			goal = "control groups"
		}
		missed = append(missed, fmt.Errorf("%s: %w", goal, err))
	}
	defer root.Close() // a directory, or nil
	var session *backend.Session
	if hasCgroup {
		session = findSession(root, path)
	}
	candidates := s.candidates(hasCgroup, session)
	here := backend.Place{
		Root: root, Path: path, Limits: s.Limits, LimitsMayFail: s.Gateway.LimitsMayFail, Session: session,
		Early: len(candidates) > 1 && len(s.Limits.Files) == 0,
	}
	tried := 0
	for _, c := range candidates {
		if c == names.Tree && errors.Is(errors.Join(missed...), unix.EMFILE) {
			break // with more descriptors there would be a group
		}
		places, err := here.On(c)
		if err != nil {
			missed = append(missed, &placeError{backend: c, err: err})
		}
		for _, p := range places {
			if tried < len(s.Places.Tried) {
				err = s.Places.Tried[tried]
			} else {
				err = try(p, missed)
			}
			tried++
			_ = p.Above.Close() // a directory, or nil
			if err == nil || errors.Is(err, errGuard) || admission.Refused(err) {
				return err
			}
			missed = append(missed, &placeError{backend: c, err: err, isTried: true})
		}
	}
	return noPlace(missed)
}

// noPlace is the error if no place works.
func noPlace(missed []error) error {
	if len(missed) != 1 {
		return fmt.Errorf("%w: %w", backend.ErrNoBackend, errors.Join(missed...))
	}
	if only, ok := missed[0].(*placeError); ok {
		return only.err // the only candidate needs no name
	}
	return missed[0]
}

// candidates are the backends that the server may have, the best first. In a session it is that of the
// session: a group of another one would be outside of the session's limits.
func (s *Server) candidates(hasCgroup bool, session *backend.Session) []names.Backend {
	candidates := []names.Backend{s.Places.Backend}
	switch {
	case s.Places.Backend == names.Auto && session != nil:
		candidates = []names.Backend{session.Backend, names.Tree}
	case s.Places.Backend == names.Auto:
		candidates = backend.Candidates()
	}
	return slices.DeleteFunc(candidates, func(c names.Backend) bool {
		isTooWeak := s.Places.Require && c == names.Tree
		isMissing := !hasCgroup && c != names.Tree
		return isTooWeak || isMissing
	})
}

// IsBeside reports whether a process is in the cgroup of its client.
func IsBeside(pid, client int) bool {
	where, err := proc.ReadCgroup(pid)
	theirs, errTheirs := proc.ReadCgroup(client)
	return err == nil && errTheirs == nil && where == theirs
}

// GroupOf returns the id of the group that a process is in, "" for none, and for the cgroup of its client.
func GroupOf(pid int, home string) (id string) {
	where, _ := proc.ReadCgroup(pid) // "", if it can't be read
	path := strings.Split(where, "/")
	i := slices.IndexFunc(path, names.IsGroup)
	if where == home || i < 0 {
		return ""
	}
	return names.IDOf(path[i])
}

// Found is where a server can be.
type Found struct {
	Backend     names.Backend
	Missed      error    // why better ones do not work
	Controllers []string // with which it can be limited
}

// CanTake returns where a process that runs can have a group. It finds that out as cheaply as that can be
// seen: a manager may still refuse a scope.
func (s *Server) CanTake() (found Found, err error) {
	err = s.eachPlace(func(p backend.Place, before []error) error {
		if err := p.CanTake(); err != nil {
			return err
		}
		found = Found{Backend: p.Backend, Missed: errors.Join(before...), Controllers: p.Controllers()}
		return nil
	})
	return found, err
}

// MoveOut moves processes out of reach of a stop of the client's unit, or of a server.
func (s *Server) MoveOut(pids ...int) error {
	freeze.ClearTag()
	return s.eachPlaceIn(noSession, func(p backend.Place, _ []error) error { return p.MoveOut(pids) })
}
