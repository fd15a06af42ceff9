// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"cmp"
	"debug/buildinfo"
	"runtime/debug"
	"slices"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// advice improves the end of servers on a backend that works.
type advice struct {
	Reason  string `json:"reason"`
	Command string `json:"command"`
	DropIn  string `json:"drop_in,omitempty"` // the lines for the editor that Command starts
}

func (d *diagnosis) advise() (all []advice) {
	if d.Backend == "" {
		return nil // the remedies of the backends are enough
	}
	h := d.Host
	if h.Unit != nil && h.Unit.KillMode == "control-group" {
		all = append(all, advice{
			Reason: "KillMode=control-group: systemd sends SIGTERM to the client and to all launchers " +
				"at the same time, so the client cannot use its servers while it shuts down",
			Command: h.Unit.Edit(), DropIn: "[Service]\nKillMode=mixed\n",
		})
	}
	if d.Backend == protocol.SystemdUser && !h.Lingering {
		all = append(all, advice{
			Reason:  "your user manager stops at your last logout, with all your servers",
			Command: cli.EnableLinger(),
		})
	}
	if !h.Init.Reaps {
		then := "the next sweep stops the server"
		if d.Backend == protocol.Tree {
			then = "nothing stops the rest of the server"
		}
		all = append(all, advice{
			Reason: "PID 1 (" + cmp.Or(h.Init.Name, "unknown") + ") may not reap orphans, so a client that " +
				"kills its process tree kills launcher and guard, and " + then,
			Command: "docker run --init, podman run --init",
		})
	}
	if d.withCgo {
		all = append(all, advice{
			Reason: "mcpscope was built with cgo, so it has no start without a Go runtime: servers " +
				"start slower, and each has a larger process beside it",
			Command: "CGO_ENABLED=0 go install github.com/mcpscope/mcpscope/cmd/...@latest",
		})
	}
	return all
}

// builtWithCgo reports whether a Go program was built with cgo, which is the default where a C compiler is.
func builtWithCgo(file string) bool {
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		return false // it is not there, or was stripped of that
	}
	return slices.Contains(info.Settings, debug.BuildSetting{Key: "CGO_ENABLED", Value: "1"})
}
