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
