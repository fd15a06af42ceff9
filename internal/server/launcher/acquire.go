// SPDX-License-Identifier: Apache-2.0

//go:build linux

package launcher

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/server/backend"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// errGuard: the guard could not be started, so no other backend would help.
var errGuard = errors.New("start the guard")

// acquire makes a group with its guard and limits. It tries the places in turn, the best first.
func (b *birth) acquire() (err error) {
	s := b.server
	if b.Config.Group.ID, err = protocol.NewID(); err != nil {
		return err
	}
	here, places, errs := s.placesFor()
	defer func() { closePlaces(here, places, b.Group) }()
	b.Config.Client.Unit, _, _ = systemd.UnitOf(here.Path, os.Getuid()) // none, outside of any
	if here.Root != nil && !b.Config.Taken {                            // the watcher is elsewhere
		fd, err := here.Root.OpenFile("."+here.Path+"/cgroup.events", unix.O_RDONLY)
		if err == nil { // the root has none
			b.Page.Events = int32(fd)
		}
	}
	var broken []error // places that there are
	for _, p := range places {
		missed := errs
		err := b.settle(p)
		if err == nil {
			b.Notes = append(s.notesOn(p.Backend(), missed), b.Notes...)
			b.Config.Group = b.Group.Placed()
			b.Client.Tag = group.TagOf(b.Config.Group.ID)
			warn(s, p.Backend(), broken)
			return b.limit()
		}
		if errors.Is(err, errGuard) {
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
func warn(s *Server, taken protocol.Backend, broken []error) {
	if taken == protocol.Tree && len(broken) > 0 && s.Weaker != nil {
		s.Weaker(errors.Join(broken...))
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
		text := "the backend %s knows no slices, so the server is not in %s"
		notes = append(notes, fmt.Sprintf(text, taken, s.Slice))
	}
	return notes
}

// closePlaces keeps what the group needs.
func closePlaces(here backend.Location, places []backend.Place, kept group.Group) {
	if here.Root != nil {
		_ = here.Root.Close()
	}
	g, _ := kept.(*group.ControlGroup)
	for _, p := range places {
		if above := p.Above(); above != nil && (g == nil || g.Parent != above) {
			_ = above.Close() // a directory
		}
	}
}
