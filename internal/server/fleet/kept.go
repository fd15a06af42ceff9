// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"errors"
	"path"
	"time"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/server/backend"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/names"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/server/sweep"
)

// listKept returns nil for a group without a process, which a sweep removes.
func listKept(parent *cgroup.Group, above, dir string) (*Listed, error) {
	k, err := group.OpenKept(parent, dir)
	if err != nil {
		return nil, err
	}
	if !group.Populated(k.Dir) {
		k.Close()
		return nil, nil
	}
	g := &group.ControlGroup{Payload: k.Dir, Placed: protocol.Placed{
		ID: names.IDOf(dir), Dir: dir, Managed: k.Managed, Backend: backend.OfGroup(above, k.Managed),
		InSession: names.IsSession(path.Base(above)),
	}}
	s := &Listed{
		Placed: g.Placed, Handle: Handle{group: g, members: k.Dir},
		UID: g.Membership().Owner(), State: Kept, Group: path.Join(above, dir), Kept: &k.Kept,
	}
	s.Facts.Name = k.Name
	s.Facts.Client = k.Client
	s.Facts.Origin = k.Origin
	if k.Managed {
		s.Unit = dir
	}
	if k.Since > 0 {
		s.Started = time.Unix(0, k.Since).UTC()
	}
	return s, nil
}

// stopKept stops kept processes. No guard does so.
func (s *Listed) stopKept(grace Grace) error {
	k := &group.KeptGroup{Kept: *s.Kept, Dir: s.Handle.group.Payload, Managed: s.Placed.Managed}
	stuck, err := sweep.StopKept(k, grace.shorten(sweep.SweepGrace))
	if err == nil && stuck != "" {
		return stuckError(stuck)
	}
	return err
}

// errKept is about an action that is for servers alone.
var errKept = errors.New("it is no server, but kept by a pattern: stop is all that can be done to it")

// checkServer refuses what is kept.
func (s *Listed) checkServer() error {
	if s.Kept != nil {
		return errKept
	}
	return nil
}
