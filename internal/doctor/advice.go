// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"cmp"

	"github.com/mcpscope/mcpscope/internal/advice"
	"github.com/mcpscope/mcpscope/internal/server/names"
)

// Advice improves the end of servers on a backend that works.
type Advice struct {
	Reason  string `json:"reason"`
	Command string `json:"command"`
	DropIn  string `json:"drop_in,omitempty"` // the lines for the editor that Command starts
}

// advise returns the advice for servers on the backend of run.
func advise(b names.Backend, f Facts) []Advice {
	var list []Advice
	unit := f.Host.Unit
	if unit != nil && unit.KillMode == "control-group" {
		list = append(list, Advice{
			Reason: "KillMode=control-group: systemd sends SIGTERM to the client and to all launchers " +
				"at the same time, so the client cannot use its servers while it shuts down",
			Command: unit.Edit(), DropIn: "[Service]\nKillMode=mixed\n",
		})
	}
	if b == names.SystemdUser && !f.Host.Lingering {
		list = append(list, Advice{
			Reason:  "your user manager stops at your last logout, with all your servers",
			Command: advice.EnableLinger(),
		})
	}
	pidOne := f.Host.Init
	if !pidOne.Reaps {
		then := "the next sweep stops the server"
		if b == names.Tree {
			then = "nothing stops the rest of the server"
		}
		list = append(list, Advice{
			Reason: "PID 1 (" + cmp.Or(pidOne.Name, "unknown") + ") may not reap orphans, so a client that " +
				"kills its process tree kills launcher and guard, and " + then,
			Command: "docker run --init, podman run --init",
		})
	}
	return list
}
