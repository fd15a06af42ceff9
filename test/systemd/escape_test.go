// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"slices"
	"testing"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
)

// TestEscape holds the promise that nothing survives and nothing else dies, where groups
// are scopes of the system's manager or of a user's. Unless all is asked for, every mode
// meets one end on one of them, and some meet all.
func TestEscape(t *testing.T) {
	host.Both(t, func(t *testing.T, u host.User) {
		t.Parallel()
		y := newYard(t, u)
		refused := y.refused(t)
		fill := func(title, name string, modes []escape.Mode, ends []escape.End) {
			backend := y.backend(name)
			backend.Refused = refused
			table := escape.Table{Title: title, Program: mcpscope, Backend: backend, Modes: modes, Ends: ends}
			table.Fill(t)
		}
		all, ends := programs.Modes(t), y.ends()
		modes := slices.Clone(all)
		if refused["move-parent"] != nil { // only from when the manager has the scope, and its directory hands controllers down
			modes = slices.DeleteFunc(modes, func(m escape.Mode) bool { return m.Name == "move-parent" })
		}
		if escape.Full() {
			fill("escape", "auto", modes, ends)
			fill("escape, asked for by name", backendOf(u), escape.Named(t, all, append([]string{"move-parent"}, some...)...), ends)
			return
		}
		if u != host.Root {
			fill("escape, every mode", "auto", modes, escape.Named(t, ends, "kill"))
		}
		fill("escape, every end", "auto", escape.Named(t, modes, some[0], some[1]), ends)
		fill("escape, asked for by name", backendOf(u), escape.Named(t, all, "move-parent", some[2]), ends)
	})
}

// some modes meet all ends in the fast tests.
var some = []string{"setsid", "ignore-both", "move-sibling"}

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
