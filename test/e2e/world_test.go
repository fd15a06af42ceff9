// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/mcpscope/mcpscope/test/escape"
)

// A world is one in which root runs servers, with groups below mcp.slice.
type world struct{ *escape.World }

func newWorld(t *testing.T) *world {
	t.Helper()
	return &world{escape.NewWorld(t, binaries.Programs)}
}

// rootsSlice is where mcpscope makes groups for root's servers.
func rootsSlice(s *escape.Site) string { return filepath.Join(s.Dir, "mcp.slice", "0") }

// groups returns the groups of all servers.
func (w *world) groups() []string { return escape.Servers(rootsSlice(w.Site), "*", "*") }

// clean fails the test for every group that mcpscope has left.
func (w *world) clean() {
	w.T.Helper()
	escape.AwaitGuards(w.T, rootsSlice(w.Site))
	escape.WantNoServers(w.T, rootsSlice(w.Site), "*", 0)
}

// mcpscope is a command in the world.
func (w *world) mcpscope(args ...string) *exec.Cmd {
	return w.Command(append([]string{binaries.mcpscope}, args...)...)
}

// run runs a command to its end.
func (w *world) run(cmd *exec.Cmd) escape.Outcome {
	w.T.Helper()
	o, err := escape.Finish(w.Dir, cmd)
	if err != nil {
		w.T.Fatal(err)
	}
	return o
}
