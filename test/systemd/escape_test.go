// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"slices"
	"testing"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
)

// TestEscape holds the promise that nothing survives and nothing else dies, where groups are scopes of the system's manager
// or of a user's. The core has the ends that a manager causes, and two ninths of the core of other tables.
func TestEscape(t *testing.T) {
	host.Both(t, func(t *testing.T, u host.User) {
		t.Parallel()
		y := newYard(t, u)
		refused := y.refused(t)
		idle := false
		fill := func(name, backend string, modes []escape.Mode) {
			b := y.backend(backend)
			b.Refused = refused
			b.Idle = idle
			table := escape.Table{Title: "escape, " + name, Name: name, Program: mcpscope, Backend: b, Modes: modes, Ends: y.ends()}
			table.Fill(t)
		}
		all := programs.Modes(t)
		modes := slices.Clone(all)
		if refused["move-parent"] != nil { // only from when the manager has the scope, and its directory hands controllers down
			modes = slices.DeleteFunc(modes, func(m escape.Mode) bool { return m.Name == "move-parent" })
		}
		fill("scopes", "auto", modes)
		fill("asked for by name", backendOf(u), escape.Named(t, all, "move-parent", "setsid", "ignore-both", "move-sibling"))
		idle = true
		fill("idle", "auto", escape.Named(t, all, escape.Resting...))
	})
}

func TestKilledWhileItStarts(t *testing.T) {
	t.Parallel()
	host.Both(t, func(t *testing.T, u host.User) {
		t.Parallel()
		for _, name := range []string{"auto", backendOf(u)} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				escape.Newborns{Backend: newYard(t, u).backend(name), Program: mcpscope}.Run(t)
			})
		}
	})
}
