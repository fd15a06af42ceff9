// SPDX-License-Identifier: Apache-2.0

//go:build linux

package launcher

import (
	"fmt"
	"slices"

	"github.com/mcpscope/mcpscope/internal/server/backend"
	"github.com/mcpscope/mcpscope/internal/server/hierarchy"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// placesFor returns the places that the server may be in, the best first, and why others
// are none.
func (s *Server) placesFor() (here backend.Location, places []backend.Place, errs []error) {
	candidates := s.candidates()
	if len(candidates) == 0 {
		return here, nil, []error{fmt.Errorf("%s: %w", s.Backend, backend.ErrWeak)}
	}
	at, err := hierarchy.PositionOf(s.Client)
	here.Position = at
	if err != nil && candidates[0] != protocol.Tree { // the only one that needs no cgroup
		errs = []error{fmt.Errorf("find our cgroup: %w", err)}
		notTree := func(c protocol.Backend) bool { return c != protocol.Tree }
		candidates = slices.DeleteFunc(candidates, notTree)
	}
	here.Slice, here.Sole = s.Slice, len(candidates) == 1
	here.Limits, here.Must = s.Limits.Files, !s.Limits.BestEffort
	here.Early = !here.Sole && len(here.Limits) == 0
	for _, c := range candidates {
		of, err := here.Places(c)
		if err != nil {
			errs = append(errs, &missedError{c, err})
			continue
		}
		places = append(places, of...)
	}
	return here, places, errs
}

// missedError says why a backend can't be had.
type missedError struct {
	backend protocol.Backend
	err     error
}

func (e *missedError) Error() string { return string(e.backend) + ": " + e.err.Error() }

func (e *missedError) Unwrap() error { return e.err }

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
