// SPDX-License-Identifier: Apache-2.0

//go:build linux

package launcher

import (
	"fmt"

	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/backend"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// In reports whether a process is in a server's group, and not in the cgroup of its client.
func In(pid, client int) bool {
	where, err := proc.ReadCgroup(pid)
	if err != nil {
		return false
	}
	if theirs, err := proc.ReadCgroup(client); err == nil && theirs == where {
		return false
	}
	return group.InAny(where)
}

// MoveOut moves processes out of reach of a stop of the client's unit, or of a server.
func (s *Server) MoveOut(pids ...int) (protocol.Backend, error) {
	freeze.ClearTag()
	here, places, errs := s.placesFor()
	defer closePlaces(here, places, nil)
	for _, p := range places {
		err := p.MoveOut(pids)
		if err == nil {
			return p.Backend(), nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", p.Backend(), err))
	}
	return "", backend.NoPlace(errs)
}
