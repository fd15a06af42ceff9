// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"strings"
	"syscall"
	"testing"

	"github.com/mcpscope/mcpscope/test/escape"
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
		y := newEarlyYard(t, u)
		test(t, transparent.Subject{Backend: y.backend("auto"), Program: mcpscope, Programs: transparent.ProgramsIn(host.Shared)})
	})
}

func TestTransparentState(t *testing.T)   { onEachManager(t, transparent.State) }
func TestTransparentRestart(t *testing.T) { onEachManager(t, transparent.Restart) }
func TestTransparentOwnPID(t *testing.T)  { onEachManager(t, transparent.OwnPID) }
func TestTransparentEnds(t *testing.T)    { onEachManager(t, transparent.Ends) }

// A server that has too few descriptors for its scope is refused, rather than started in the client's cgroup.
func TestFewDescriptors(t *testing.T) {
	host.BothAtOnce(t, func(t *testing.T, u host.User) {
		run := func(argv ...string) escape.Outcome {
			cmd := host.Current(t).Command(u, argv...)
			var out, said strings.Builder
			cmd.Stdout = &out
			cmd.Stderr = &said
			if err := cmd.Run(); cmd.ProcessState == nil {
				t.Fatal(err)
			}
			status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
			return escape.Outcome{Stdout: out.String(), Stderr: said.String(), Status: status}
		}
		escape.FewDescriptors(t, run, mcpscope)
	})
}
