// SPDX-License-Identifier: Apache-2.0

//go:build linux

package launcher

import (
	"errors"
	"fmt"
	"slices"

	"github.com/mcpscope/mcpscope/internal/server/backend"
	"github.com/mcpscope/mcpscope/internal/server/hierarchy"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// eachPlace calls try with the places that the server may be in, the best first, until one works, whose
// directory stays open. missed has the errors of the places before.
func (s *Server) eachPlace(try func(here backend.Location, p backend.Place, missed []error) error) error {
	candidates := s.candidates()
	if len(candidates) == 0 {
		return backend.ErrWeak
	}
	at, err := hierarchy.PositionOf(s.Client)
	var errs []error
	if err != nil && candidates[0] != protocol.Tree { // the only one that needs no cgroup
		errs = append(errs, fmt.Errorf("find our cgroup: %w", err))
		notTree := func(c protocol.Backend) bool { return c != protocol.Tree }
		candidates = slices.DeleteFunc(candidates, notTree)
	}
	if at.Root != nil {
		defer at.Root.Close()
	}
	here := backend.Location{
		Position: at, Slice: s.Slice, Sole: len(candidates) == 1,
		Limits: s.Limits.Files, Must: !s.Limits.BestEffort,
	}
	here.Early = !here.Sole && len(here.Limits) == 0
	for _, c := range candidates {
		places, err := here.Places(c)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", c, err))
		}
		for _, p := range places {
			err := try(here, p, errs)
			if err == nil || errors.Is(err, errGuard) {
				return err
			}
			errs = append(errs, fmt.Errorf("%s: %w", c, err))
			closeAbove(p)
		}
	}
	return backend.NoPlace(errs)
}

func closeAbove(p backend.Place) {
	if above := p.Above(); above != nil {
		_ = above.Close() // a directory
	}
}

// candidates lists what is tried.
func (s *Server) candidates() []protocol.Backend {
	all := []protocol.Backend{s.Backend}
	if s.Backend == protocol.Auto {
		all = backend.Candidates()
	}
	if s.Require {
		all = slices.DeleteFunc(all, func(c protocol.Backend) bool { return c == protocol.Tree })
	}
	return all
}
