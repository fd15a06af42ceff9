// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"testing"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
	"github.com/mcpscope/mcpscope/test/transparent"
)

// What a server can tell, against the bare command. These tests come before those of escape_test.go: a
// systemd that has executed itself again grants no core dumps any more.

// onEachManager runs a test of what a server can tell where its group is a manager's scope;
// root's alone, unless all is asked for.
func onEachManager(t *testing.T, test func(*testing.T, transparent.Subject)) {
	host.Both(t, func(t *testing.T, u host.User) {
		if u != host.Root && !escape.Full() {
			return
		}
		t.Parallel()
		y := newYard(t, u)
		test(t, transparent.Subject{
			Backend: y.backend("auto"), Program: mcpscope, Programs: transparent.ProgramsIn(host.Shared), Page: "../../docs/understand/differences.md",
		})
	})
}

func TestTransparentState(t *testing.T)       { onEachManager(t, transparent.State) }
func TestTransparentEnds(t *testing.T)        { onEachManager(t, transparent.Ends) }
func TestTransparentLastAnswers(t *testing.T) { onEachManager(t, transparent.LastAnswers) }
func TestTransparentHolders(t *testing.T)     { onEachManager(t, transparent.Holders) }
func TestTerminalSignals(t *testing.T)        { onEachManager(t, transparent.TerminalSignals) }
func TestTerminalJobControl(t *testing.T)     { onEachManager(t, transparent.JobControl) }

// What follows test/e2e has in the fast tests.

func TestTransparentSignals(t *testing.T) {
	if escape.Full() {
		onEachManager(t, transparent.Signals)
	}
}

func TestTransparentBytes(t *testing.T) {
	if escape.Full() {
		onEachManager(t, transparent.Bytes)
	}
}

func TestTerminalFullScreen(t *testing.T) {
	if escape.Full() {
		onEachManager(t, transparent.FullScreen)
	}
}
