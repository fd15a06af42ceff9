// SPDX-License-Identifier: Apache-2.0

//go:build linux

package launcher

import (
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
func (s *Server) MoveOut(pids ...int) (to protocol.Backend, err error) {
	freeze.ClearTag()
	err = s.eachPlace(func(_ backend.Location, p backend.Place, _ []error) error {
		if err := p.MoveOut(pids); err != nil {
			return err
		}
		to = p.Backend()
		closeAbove(p)
		return nil
	})
	return to, err
}
