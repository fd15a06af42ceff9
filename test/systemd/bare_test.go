// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"testing"

	"github.com/mcpscope/mcpscope/test/host"
	"github.com/mcpscope/mcpscope/test/operate"
	"github.com/mcpscope/mcpscope/test/transparent"
)

// The commands for operators, where groups are a manager's scopes.
func TestOperators(t *testing.T) {
	host.BothAtOnce(t, func(t *testing.T, u host.User) {
		y := newYard(t, u)
		operate.All(t, operate.Subject{Backend: y.backend(backendOf(u)), Program: mcpscope, Probe: transparent.ProgramsIn(host.Shared).Probe})
	})
}

// A server in a manager's scope sees the same as the bare command; test/e2e has the tests without managers.
// These come before TestEscape: a systemd that has executed itself again grants no core dumps any more.
func onEachManager(t *testing.T, test func(*testing.T, transparent.Subject)) {
	host.BothAtOnce(t, func(t *testing.T, u host.User) {
		y := newYard(t, u)
		test(t, transparent.Subject{Backend: y.backend("auto"), Program: mcpscope, Programs: transparent.ProgramsIn(host.Shared)})
	})
}

func TestTransparentState(t *testing.T) { onEachManager(t, transparent.State) }
func TestTransparentEnds(t *testing.T)  { onEachManager(t, transparent.Ends) }
