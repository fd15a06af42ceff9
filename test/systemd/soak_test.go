// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
	"github.com/mcpscope/mcpscope/test/soak"
	"github.com/mcpscope/mcpscope/test/transparent"
)

// TestSoak is a tenth of test/soak's where groups are scopes: a manager gets to keep no unit.
func TestSoak(t *testing.T) {
	if !escape.Full() {
		return // too few would show nothing
	}
	host.Both(t, func(t *testing.T, u host.User) {
		y := newYard(t, u)
		p := soak.Plan{Backend: y.backend("auto"), Beside: u.Slice(), Program: mcpscope, Probe: transparent.ProgramsIn(host.Shared).Probe,
			Cycles: soak.Cycles() / 10, Orphans: true, Units: func() int { return y.servers(t) }}
		p.Run(t)
	})
}

// servers counts the manager's units of servers, in whatever state.
func (y *yard) servers(t *testing.T) int {
	t.Helper()
	out, err := y.host.Manage(y.user, "systemctl", "list-units", "--all", "--plain", "--no-legend", "mcp-*").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(out), "\n")
}
