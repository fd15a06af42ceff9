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
	var broken []error // places that there are
	err = s.eachPlace(func(here backend.Location, p backend.Place, missed []error) error {
		b.Config.Client.Unit, _, _ = systemd.UnitOf(here.Path, os.Getuid()) // none, outside of any
		if b.Page.Events < 0 && here.Root != nil && !b.Config.Taken {       // the watcher is elsewhere
			fd, err := here.Root.OpenFile("."+here.Path+"/cgroup.events", unix.O_RDONLY)
			if err == nil { // the root cgroup does not have the file
				b.Page.Events = int32(fd)
			}
		}
		if err := b.settle(p); err != nil {
			if _, ours := p.(backend.Directory); ours { // a manager can be busy, or not be meant for us
				broken = append(broken, fmt.Errorf("%s: %w", p.Backend(), err))
			}
			return err
		}
		b.Notes = append(s.notesOn(p.Backend(), missed), b.Notes...)
		return nil
	})
	if err != nil {
		return err
	}
	b.Config.Group = b.Group.Placed()
	b.Client.Tag = group.TagOf(b.Config.Group.ID)
	// That a host has no better backend is a note. One that it has but that does not work any more must be
	// reported, for tree is weaker.
	if b.Config.Group.Backend == protocol.Tree && len(broken) > 0 && s.Weaker != nil {
		s.Weaker(errors.Join(broken...))
	}
	return b.limit()
}

// notesOn are for people who wonder about the backend: why each better one is not available.
func (s *Server) notesOn(taken protocol.Backend, missed []error) []string {
	notes := slices.Clone(s.Notes)
	for _, err := range missed {
		notes = append(notes, "not available: "+protocol.OneLine(err))
	}
	if s.Slice != protocol.DefaultSlice && taken != protocol.SystemdUser && taken != protocol.SystemdSystem {
		text := "the backend %s knows no slices, so the server is not in %s"
		notes = append(notes, fmt.Sprintf(text, taken, s.Slice))
	}
	return notes
}
