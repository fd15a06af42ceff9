// SPDX-License-Identifier: Apache-2.0

package systemd

import (
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
		backend := y.backend()
		backend.Refused = y.refused(t)
		fill := func(title string, modes []escape.Mode, ends []escape.End) {
			table := escape.Table{Title: title, Program: mcpscope, Backend: backend, Modes: modes, Ends: ends}
			table.Fill(t)
		}
		modes, ends := programs.Modes(t), y.ends()
		if escape.Full() {
			fill("escape", modes, ends)
			return
		}
		if u != host.Root {
			fill("escape, every mode", modes, escape.Named(t, ends, "kill"))
		}
		fill("escape, every end", escape.Named(t, modes, "setsid", "ignore-both", "move-sibling"), ends)
	})
}

func TestKilledWhileItStarts(t *testing.T) {
	t.Parallel()
	host.Both(t, func(t *testing.T, u host.User) {
		t.Parallel()
		escape.Newborns{Backend: newYard(t, u).backend(), Program: mcpscope}.Run(t)
	})
}
