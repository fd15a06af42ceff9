// SPDX-License-Identifier: Apache-2.0

//go:build linux

package launcher

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/linux"
	"github.com/mcpscope/mcpscope/internal/server/backend"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/systemd"
)

// acquireGroup tries the places in turn, the best first. Where a group can be made before
// there is a supervisor, that is born in it.
func (l *launcher) acquireGroup() error {
	here, places, errs := l.server.placesFor(l.child == nil)
	l.here, l.places = here, places
	l.config.Client.Unit, _, _ = systemd.UnitOf(here.Path, os.Getuid()) // none, outside of any
	var broken []error                                                  // places that there are
	for _, p := range places {
		err := l.acquireFrom(p, l.server.notesOn(p.Backend(), errs))
		if err == nil {
			l.warn(p.Backend(), broken)
			return nil
		}
		if errors.Is(err, protocol.ErrSpawn) {
			return err // no other place would help
		}
		errs = append(errs, fmt.Errorf("%s: %w", p.Backend(), err))
		if _, ours := p.(backend.Directory); ours { // a manager can be busy, or not be meant for us
			broken = append(broken, errs[len(errs)-1])
		}
	}
	return backend.NoPlace(errs)
}

// warn: that a host has no better backend is a note. That one which it has does not work any more must
// not be silent, for tree is weaker.
func (l *launcher) warn(taken protocol.Backend, broken []error) {
	if taken == protocol.Tree && len(broken) > 0 && l.server.Weaker != nil {
		l.server.Weaker(errors.Join(broken...))
	}
}

// notesOn are for people who wonder about the backend: why each better one is not available.
func (s *Server) notesOn(taken protocol.Backend, missed []error) []string {
	notes := slices.Clone(s.Notes)
	candidates := s.candidates()
	worse := candidates[slices.Index(candidates, taken)+1:]
	for _, err := range missed {
		var of *missedError
		if errors.As(err, &of) && slices.Contains(worse, of.backend) {
			continue
		}
		notes = append(notes, "not available: "+protocol.OneLine(err))
	}
	if s.Slice != protocol.DefaultSlice && taken != protocol.SystemdUser && taken != protocol.SystemdSystem {
		notes = append(notes, fmt.Sprintf("the backend %s knows no slices, so the server is not in %s", taken, s.Slice))
	}
	return notes
}

func (l *launcher) acquireFrom(p backend.Place, notes []string) error {
	var err error
	if l.supervisor == 0 && p.NeedsProcess() {
		if err = l.spawn(nil); err != nil {
			return err
		}
		l.enters = true
	}
	if l.group, err = p.Group(l.config, l.supervisor); err != nil {
		return err
	}
	l.backend, l.notes, l.client.Tag = p.Backend(), notes, group.TagOf(l.group.Ident())
	if l.child != nil {
		return nil // it comes first: see Taken
	}
	return l.post()
}

// placed is what the supervisor has to know of its group.
func (l *launcher) placed() (protocol.Placed, []int) {
	at, fds := l.group.Placed()
	at.Backend, at.Enter, at.Notes, at.Stderr = l.backend, l.enters, l.notes, l.stderr
	return at, fds
}

// employ starts the supervisor in its group, unless there is one. One that was needed to make the group has no successor.
func (l *launcher) employ() error {
	if l.supervisor != 0 && (l.enters || !linux.Ended(l.begun)) {
		return nil
	}
	if l.begun >= 0 { // a server that ran already has killed it
		_ = unix.Close(l.begun)
		l.begun = -1
	}
	return l.spawn(l.group.SupervisorGroup())
}

// post has the supervisor go to its group, which it starts the server in.
func (l *launcher) post() error {
	if err := l.employ(); err != nil || l.birth != nil {
		return err
	}
	at, fds := l.placed()
	l.group.Begun(l.begun)
	if err := l.control.Send(protocol.Message{Type: protocol.SayPlace, Place: &at}, fds...); err != nil {
		return fmt.Errorf("%w: %w", protocol.ErrSpawn, err)
	}
	return nil
}
