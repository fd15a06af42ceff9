// SPDX-License-Identifier: Apache-2.0

//go:build linux

package diagnose

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/units"
)

// advice is what would make servers end better where they run already.
type advice struct {
	Reasons []string `json:"reasons"`
	Command string   `json:"command,omitempty"`
	DropIn  string   `json:"drop_in,omitempty"` // what to enter where Command asks for it
}

func (d *diagnosis) advise() []advice {
	if d.Backend == "" {
		return nil // the remedies come first
	}
	var all []advice
	for _, a := range []*advice{d.adviseUnit(), d.adviseLingering(), d.adviseInit()} {
		if a != nil {
			all = append(all, *a)
		}
	}
	return all
}

// adviseUnit is about the client's service, if we are in it.
func (d *diagnosis) adviseUnit() *advice {
	u := d.Host.Unit
	if u == nil || !u.Service() || u.KillMode == "" {
		return nil
	}
	var reasons []string
	lines := []string{"[Service]"}
	if u.KillMode == "control-group" {
		reasons = append(reasons, "KillMode=control-group: at a stop, SIGTERM reaches the servers' launchers together with the client, "+
			"which can't use its servers any more for a drain")
		lines = append(lines, "KillMode=mixed")
	}
	if d.managed() && !u.Binds(d.Backend) && !u.Sweeps {
		reasons = append(reasons, fmt.Sprintf("%s is of the %s manager, and servers run in scopes of another, which can't be bound to it: "+
			"if launcher and guard are killed with the client, a sweep ends what is left. A client in a unit of that other manager needs none",
			u.Name, u.Manager))
		lines = append(lines, "ExecStopPost=-"+units.InstalledPrograms().Mcpscope+" sweep")
	}
	if len(reasons) == 0 {
		return nil
	}
	return &advice{Reasons: reasons, Command: u.Edit(), DropIn: strings.Join(lines, "\n") + "\n"}
}

// managed tells whether servers get scopes of a manager.
func (d *diagnosis) managed() bool {
	return d.Backend == protocol.SystemdUser || d.Backend == protocol.SystemdSystem
}

func (d *diagnosis) adviseLingering() *advice {
	if d.Backend != protocol.SystemdUser || d.Host.Lingering == nil || *d.Host.Lingering {
		return nil
	}
	return &advice{
		Reasons: []string{"your user manager, and every server with it, ends at your last logout"},
		Command: cli.EnableLinger(),
	}
}

func (d *diagnosis) adviseInit() *advice {
	if d.Host.Init.Reaps {
		return nil
	}
	return &advice{
		Reasons: []string{fmt.Sprintf("PID 1 (%s) is not known to reap orphans, so the guard stays a child of the launcher: "+
			"a client that kills its whole process tree reaches both, and leaves the server to the next sweep", cmp.Or(d.Host.Init.Name, "unknown"))},
		Command: "docker run --init, podman run --init",
	}
}
