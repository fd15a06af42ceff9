// SPDX-License-Identifier: Apache-2.0

package launcher

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/server/backend"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// eachPlace calls try with the places that the server may be in, the best first, until one works. missed
// has the errors of the places before.
func (s *Server) eachPlace(try func(p backend.Place, missed []error) error) error {
	if s.Require && s.Backend == protocol.Tree {
		return errors.New("it was asked for, and is weaker than --require (or MCPSCOPE_REQUIRE, " +
			"or mcpscope.toml) allows")
	}
	if err := proc.Ours(); err != nil {
		return err
	}
	candidates := []protocol.Backend{s.Backend}
	if s.Backend == protocol.Auto {
		candidates = backend.Candidates()
	}
	root, path, err := group.Position(s.Client)
	var errs []error
	if err != nil && s.Backend != protocol.Tree { // the only one that needs no cgroup
		errs = append(errs, fmt.Errorf("find our cgroup: %w", err))
	}
	candidates = slices.DeleteFunc(candidates, func(c protocol.Backend) bool {
		return s.Require && c == protocol.Tree || err != nil && c != protocol.Tree
	})
	defer root.Close() // a directory, or nil
	here := backend.Place{
		Root: root, Path: path, Limits: s.Limits,
		Early: len(candidates) > 1 && len(s.Limits.Files) == 0,
	}
	for _, c := range candidates {
		if c == protocol.Tree && errors.Is(errors.Join(errs...), unix.EMFILE) {
			break // with more descriptors there would be a group
		}
		places, err := here.On(c)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", c, err))
		}
		for _, p := range places {
			err := try(p, errs)
			_ = p.Above.Close() // a directory, or nil
			if err == nil || errors.Is(err, errGuard) {
				return err
			}
			errs = append(errs, fmt.Errorf("%s: %w", c, err))
		}
	}
	if len(errs) == 1 {
		return errors.Unwrap(errs[0]) // the only candidate needs no name
	}
	return fmt.Errorf("%w: %w", backend.ErrNoBackend, errors.Join(errs...))
}

// errGuard: the guard could not be started, so no other backend would help.
var errGuard = errors.New("start the guard")

// acquire makes a group with its guard and limits. It tries the places in turn, the best first.
func (b *birth) acquire() (err error) {
	s := b.wanted
	var broken []error // places that there are
	err = s.eachPlace(func(p backend.Place, missed []error) error {
		b.Config.Client.Unit, _, _ = systemd.UnitOf(p.Path, os.Getuid()) // none, outside of any
		if err := b.makeGroup(p); err != nil {
			// a manager can be busy, or not be meant for us
			if p.Backend == protocol.Delegated || p.Backend == protocol.Cgroup {
				broken = append(broken, fmt.Errorf("%s: %w", p.Backend, err))
			}
			return err
		}
		notes := slices.Clone(s.Notes)
		for _, err := range missed { // for people who wonder about the backend
			notes = append(notes, "not available: "+protocol.OneLine(err))
		}
		b.Config.Notes = append(notes, b.Config.Notes...)
		return nil
	})
	if err != nil {
		return err
	}
	b.Config.Group = b.Group.Placed
	// That a host has no better backend is a note. One that it has but that does not work any more must be
	// reported, for tree is weaker.
	if b.Config.Group.Backend == protocol.Tree && len(broken) > 0 && s.Weaker != nil {
		s.Weaker(errors.Join(broken...))
	}
	if s.Unproven {
		return b.Group.Disarm() // a sweep leaves such a group alone
	}
	return b.limit(s.Limits) // before there is a main process
}

// limit applies the limits of a server to its group. With limits.BestEffort one that can't be applied is a
// note.
func (b *birth) limit(limits cgroup.Limits) error {
	for _, l := range limits.Files {
		_, err := b.Group.Limit(l)
		switch {
		case err == nil:
		case limits.BestEffort:
			b.Note("not limited: " + protocol.OneLine(err))
			b.unlimited = append(b.unlimited, err)
		default:
			return err
		}
	}
	return nil
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
	names := strings.Split(where, "/")
	i := slices.IndexFunc(names, protocol.IsGroup)
	if where == home || i < 0 {
		return ""
	}
	return protocol.IDOf(names[i])
}

// CanTake reports why no process that runs can get a group here, as cheaply as that can be seen. A manager
// may still refuse a scope.
func (s *Server) CanTake() error {
	return s.eachPlace(func(p backend.Place, _ []error) error { return p.CanTake() })
}

// MoveOut moves processes out of reach of a stop of the client's unit, or of a server.
func (s *Server) MoveOut(pids ...int) error {
	freeze.ClearTag()
	return s.eachPlace(func(p backend.Place, _ []error) error { return p.MoveOut(pids) })
}
