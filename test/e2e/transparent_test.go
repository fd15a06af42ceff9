// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/transparent"
)

// onEachBackend runs a test of mcpscope's transparency on all backends that need no systemd.
// Only a full run has delegated, which differs least.
func onEachBackend(t *testing.T, test func(*testing.T, transparent.Subject)) {
	t.Parallel()
	for _, backend := range []escape.Backend{cgroup, delegated, tree} {
		t.Run(backend.Name, func(t *testing.T) {
			if backend.Name == delegated.Name && !escape.Full() {
				return
			}
			t.Parallel()
			test(t, transparent.Subject{Backend: backend, Program: binaries.mcpscope, Programs: binaries.transparent})
		})
	}
}

func TestTransparentState(t *testing.T)       { onEachBackend(t, transparent.State) }
func TestTransparentSignals(t *testing.T)     { onEachBackend(t, transparent.Signals) }
func TestTransparentEndOfStdin(t *testing.T)  { onEachBackend(t, transparent.EndOfStdin) }
func TestTransparentBytes(t *testing.T)       { onEachBackend(t, transparent.Bytes) }
func TestTransparentLastAnswers(t *testing.T) { onEachBackend(t, transparent.LastAnswers) }
func TestTransparentHolders(t *testing.T)     { onEachBackend(t, transparent.Holders) }
func TestTransparentRestart(t *testing.T)     { onEachBackend(t, transparent.Restart) }
func TestTransparentOwnPID(t *testing.T)      { onEachBackend(t, transparent.OwnPID) }
func TestTransparentQuestion(t *testing.T)    { onEachBackend(t, transparent.Question) }
func TestTransparentEnds(t *testing.T)        { onEachBackend(t, transparent.Ends) }
