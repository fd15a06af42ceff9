// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/operate"
)

// operated runs a test of the commands for operators on all backends that need no systemd.
func operated(t *testing.T, test func(*testing.T, operate.Subject)) {
	t.Parallel()
	for _, backend := range []escape.Backend{cgroup, delegated, tree} {
		t.Run(backend.Name, func(t *testing.T) {
			test(t, operate.Subject{Backend: backend, Program: binaries.mcpscope, Probe: binaries.probe})
		})
	}
}

func TestOperators(t *testing.T) { operated(t, operate.All) }

// The commands' output is the same on all backends, except for the fields about the backend.
func TestGolden(t *testing.T) {
	operate.Golden(t, operate.Subject{Backend: cgroup, Program: binaries.mcpscope, Probe: binaries.probe})
}

func TestChurn(t *testing.T) {
	for _, backend := range []escape.Backend{cgroup, tree} {
		t.Run(backend.Name, func(t *testing.T) {
			operate.Churn(t, operate.Subject{Backend: backend, Program: binaries.mcpscope, Probe: binaries.probe})
		})
	}
}
