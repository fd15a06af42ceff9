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

// advice improves the end of servers on a backend that works.
type advice struct {
	Reasons []string `json:"reasons"`
	Command string   `json:"command,omitempty"`
	DropIn  string   `json:"drop_in,omitempty"` // the lines for the editor that Command starts
}

func (d *diagnosis) advise() []advice {
	if d.Backend == "" {
		return nil // the remedies of the backends are enough
	}
	var all []advice
	for _, a := range []*advice{d.adviseUnit(), d.adviseLingering(), d.adviseInit()} {
		if a != nil {
			all = append(all, *a)
		}
	}
	return all
}

// adviseUnit is about the service of the client, if doctor runs in it.
func (d *diagnosis) adviseUnit() *advice {
	u := d.Host.Unit
	if u == nil || !u.Service() || u.KillMode == "" {
		return nil
	}
	var reasons []string
	lines := []string{"[Service]"}
	if u.KillMode == "control-group" {
		reasons = append(reasons, "KillMode=control-group: systemd sends SIGTERM to the client "+
			"and to all launchers at the same time, so the client cannot use its servers while it shuts down")
		lines = append(lines, "KillMode=mixed")
	}
	if d.managed() && !u.Binds(d.Backend) && !u.Sweeps {
		reasons = append(reasons, fmt.Sprintf("%s belongs to the %s manager, so the scopes of servers, "+
			"which belong to the other, cannot be bound to it. If launcher and guard are killed "+
			"together with the client, a sweep stops the server. "+
			"A client in a unit of the other manager does not need the sweep", u.Name, u.Manager))
		lines = append(lines, "ExecStopPost=-"+units.InstalledPrograms().Mcpscope+" sweep")
	}
	if len(reasons) == 0 {
		return nil
	}
	return &advice{Reasons: reasons, Command: u.Edit(), DropIn: strings.Join(lines, "\n") + "\n"}
}

// managed reports whether servers get scopes of a manager.
func (d *diagnosis) managed() bool {
	return d.Backend == protocol.SystemdUser || d.Backend == protocol.SystemdSystem
}

func (d *diagnosis) adviseLingering() *advice {
	if d.Backend != protocol.SystemdUser || d.Host.Lingering == nil || *d.Host.Lingering {
		return nil
	}
	return &advice{
		Reasons: []string{"your user manager stops at your last logout, with all your servers"},
		Command: cli.EnableLinger(),
	}
}

func (d *diagnosis) adviseInit() *advice {
	if d.Host.Init.Reaps {
		return nil
	}
	return &advice{
		Reasons: []string{fmt.Sprintf("PID 1 (%s) may not reap orphans, so the guard stays a child "+
			"of the launcher. A client that kills its process tree kills both, "+
			"and the next sweep stops the server",
			cmp.Or(d.Host.Init.Name, "unknown"))},
		Command: "docker run --init, podman run --init",
	}
}
