// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"errors"
	"os/exec"
	"strconv"
	"strings"
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

// A server that has too few descriptors for its scope is refused, rather than started in the client's cgroup.
func TestFewDescriptors(t *testing.T) {
	host.BothAtOnce(t, func(t *testing.T, u host.User) {
		started, refused := 0, 0
		for limit := 10; limit <= 40; limit++ {
			const script = `ulimit -n "$1" && exec "$2" run -- cat /proc/self/cgroup`
			cmd := host.Current(t).Command(u, "sh", "-c", script, "sh", strconv.Itoa(limit), mcpscope)
			out, err := cmd.Output()
			var exit *exec.ExitError
			switch {
			case err == nil && strings.Contains(string(out), "/mcp-"):
				started++
			case errors.As(err, &exit) && exit.ExitCode() == 125 && len(out) == 0:
				refused++
			default:
				t.Errorf("with %d open files: %v, %q", limit, err, out)
			}
		}
		if started == 0 || refused == 0 {
			t.Errorf("%d started and %d refused: the limits are not around the one that matters", started, refused)
		}
	})
}
