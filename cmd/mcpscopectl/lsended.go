// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"slices"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/logs"
	"github.com/mcpscope/mcpscope/internal/render"
	"github.com/mcpscope/mcpscope/internal/selection"
	"github.com/mcpscope/mcpscope/internal/server/fleet"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// ended returns the servers that the journal has, without those that run: an event can be forged. Where it
// cannot be read, a note says so, and the list has the other servers.
func (f *lsFlags) ended(running []*fleet.Listed, stdio cli.Stdio) []render.Server {
	found, err := logs.EndedServers(f.servers.Users())
	if err != nil {
		stdio.NoteError("servers that have ended are not listed: ", err)
	}
	var views []render.Server
	for _, e := range found {
		isRunning := slices.ContainsFunc(running, func(s *fleet.Listed) bool { return s.Placed.ID == e.ID })
		traits := selection.Traits{
			ClientPID: e.ClientPID, ClientName: e.ClientName,
			Project: e.Project, Conversation: e.Conversation,
		}
		if !isRunning && f.servers.Matches(traits) {
			views = append(views, endedView(&e))
		}
	}
	return views
}

func endedView(e *logs.EndedServer) render.Server {
	v := render.Server{
		Identity: render.Identity{
			ID: e.ID, Name: e.Name, UID: e.UID, Backend: e.Backend, State: render.Ended, Cause: e.Cause,
			Client: render.Process{PID: e.ClientPID, Name: e.ClientName}, ClientUnit: e.ClientUnit,
			Origin: protocol.Origin{Project: e.Project, Conversation: e.Conversation},
		},
		Started: e.Started,
		Ended:   &e.Ended,
		Figures: render.Figures{CPU: e.CPU, Peak: e.Peak},
	}
	if e.Started != nil { // it is unknown of an orphan
		v.Age = e.Ended.Sub(*e.Started).Seconds()
	}
	return v
}
