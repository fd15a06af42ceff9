// SPDX-License-Identifier: Apache-2.0

package leaks

import (
	"cmp"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/clientconfig"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/render"
	"github.com/mcpscope/mcpscope/internal/selection"
	"github.com/mcpscope/mcpscope/internal/server/fleet"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/sweep"
)

const (
	// leaked is the state of a server that runs outside any group after its client exited.
	leaked fleet.State = "leak"
	// unsure is the state of a process that may be one.
	unsure fleet.State = "unsure"
)

// sweptVersion is the version of the JSON of sweep, in which fields are only ever added.
const sweptVersion = 1

// Swept is an orphan or a leak in JSON.
type Swept struct {
	Version   int             `json:"version"`
	Server    render.Server   `json:"server"`
	Stuck     string          `json:"stuck,omitempty"` // why it could not be stopped
	Stopped   *bool           `json:"stopped,omitempty"`
	PID       int             `json:"pid,omitempty"`       // of a leak
	Parent    *render.Process `json:"parent,omitempty"`    // of a leak
	Command   string          `json:"command,omitempty"`   // of a leak, without secrets
	Directory string          `json:"directory,omitempty"` // of a leak
	File      string          `json:"file,omitempty"`      // that configures a leak
	Doubt     string          `json:"doubt,omitempty"`     // why it is not stopped
}

// MeasureServers returns the servers of a choice of users by id. A sweep ends some of them, so it comes
// afterwards.
func MeasureServers(users group.Users) map[string]render.Server {
	servers, _ := fleet.List(users) // a server that cannot be listed has no figures
	defer selection.Close(servers)
	byID := map[string]render.Server{}
	for _, v := range render.MeasureAll(servers) {
		byID[v.ID] = v
	}
	return byID
}

// SweptOrphan adds the figures from before the sweep.
func SweptOrphan(o sweep.Swept, before render.Server) Swept {
	before.ID = o.ID
	before.Name = o.Name
	before.Group = cmp.Or(before.Group, o.Dir)
	before.State = fleet.Orphaned
	return Swept{Version: sweptVersion, Server: before, Stuck: o.Stuck}
}

// Swept is the leak with its present figures.
func (l *Leak) Swept() Swept {
	server := render.Server{
		Identity: render.Identity{Name: l.Name, UID: l.UID, State: leaked},
		Age:      l.Age.Seconds(),
		Figures:  render.Figures{Processes: len(l.processes())},
	}
	server.AddMembers(l.processes())
	if l.Doubt != "" {
		server.State = unsure
	}
	parent := &render.Process{PID: l.Parent}
	parent.Name, _ = proc.Comm(l.Parent) // "", if it may not be read
	return Swept{
		Version:   sweptVersion,
		Server:    server,
		PID:       l.PID,
		Parent:    parent,
		Command:   clientconfig.WithoutSecrets(l.Argv),
		Directory: cli.OneLine(l.Dir),
		File:      l.File,
		Doubt:     l.Doubt,
	}
}
