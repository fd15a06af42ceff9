//go:build linux

package scope

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/mcpscope/mcpscope/systemd"
)

// settle tries the places in turn, the best first. Where a group can be made before
// there is a supervisor, that is born in it.
func (l *launcher) settle() error {
	here, places, errs := l.server.placesFor()
	l.here, l.places = here, places
	l.config.Client.Unit, _, _ = systemd.UnitOf(here.path, os.Getuid()) // none, outside of any
	var broken []error                                                  // places that there are
	for _, p := range places {
		err := l.settleAt(p, l.server.notesOn(p.backend(), errs))
		if err == nil {
			l.complain(p.backend(), broken)
			return nil
		}
		if errors.Is(err, errSpawn) {
			return err // no other place would help
		}
		errs = append(errs, fmt.Errorf("%s: %w", p.backend(), err))
		if _, ours := p.(directory); ours { // a manager can be busy, or not be meant for us
			broken = append(broken, errs[len(errs)-1])
		}
	}
	return noPlace(errs)
}

// complain: that a host has no better backend is a note. That one which it has does not work any more must
// not be silent, for tree is weaker.
func (l *launcher) complain(taken Backend, broken []error) {
	if taken == Tree && len(broken) > 0 && l.server.Weaker != nil {
		l.server.Weaker(errors.Join(broken...))
	}
}

// notesOn are for people who wonder about the backend: why each better one is not available.
func (s *Server) notesOn(taken Backend, missed []error) []string {
	notes := slices.Clone(s.Notes)
	candidates := s.candidates()
	worse := candidates[slices.Index(candidates, taken)+1:]
	for _, err := range missed {
		var of *missedError
		if errors.As(err, &of) && slices.Contains(worse, of.backend) {
			continue
		}
		notes = append(notes, "not available: "+oneLine(err))
	}
	if s.Slice != DefaultSlice && taken != SystemdUser && taken != SystemdSystem {
		notes = append(notes, fmt.Sprintf("the backend %s knows no slices, so the server is not in %s", taken, s.Slice))
	}
	return notes
}

// errSpawn marks that the supervisor could not be started.
var errSpawn = errors.New("start the supervisor")

func (l *launcher) settleAt(p place, notes []string) error {
	var err error
	if l.supervisor == 0 && p.needsProcess() {
		if err = l.spawn(nil); err != nil {
			return err
		}
	}
	if l.group, err = p.group(l.config, l.pids()...); err != nil {
		return err
	}
	l.backend, l.notes, l.client.mark = p.backend(), notes, markOf(l.group.ident())
	if l.child != nil {
		return nil // it comes first: see Taken
	}
	return l.post()
}

// pids are for a place that needs processes.
func (l *launcher) pids() []int {
	if l.child != nil {
		return []int{l.supervisor, l.child.PID}
	}
	return []int{l.supervisor}
}

// post has the supervisor go to its group, which it starts the server in.
func (l *launcher) post() error {
	at, fds := l.group.placed()
	at.Backend, at.Enter, at.Notes = l.backend, l.supervisor != 0, l.notes
	if l.supervisor == 0 {
		if err := l.spawn(l.group.cradle()); err != nil {
			return err
		}
	}
	if err := l.control.send(message{Type: sayPlace, Place: &at}, fds...); err != nil {
		return fmt.Errorf("%w: %w", errSpawn, err)
	}
	return nil
}
