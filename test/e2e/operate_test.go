// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"slices"
	"sync"
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

// A guard has its name from birth: a list finds it although it has not run yet, as on a busy machine.
func TestListedBeforeItsGuardRuns(t *testing.T) {
	t.Parallel()
	first := startProbe(t, nil)
	escape.AwaitSettled(first.guard)
	freeze := freezeGroupOf(t, first.guard) // the leaf in which each guard is born
	defer freeze("0")
	var freezing sync.WaitGroup
	defer freezing.Wait()
	done := make(chan struct{})
	defer close(done)
	freezing.Go(func() { // a start thaws the leaf before it forks the guard
		for {
			select {
			case <-done:
				return
			default:
				freeze("1")
			}
		}
	})
	const starts = 3
	for range starts {
		second := launchServer(first.world, []string{"--group"}, nil, binaries.probe)
		if err := second.members.UntilReady(escape.Patience); err != nil {
			t.Error(err)
		}
	}
	var list struct{ Servers []operate.Shown }
	o := first.world.run(first.world.mcpscope("ls", "--json"))
	if err := json.Unmarshal([]byte(o.Stdout), &list); err != nil {
		t.Fatal(err)
	}
	list.Servers = slices.DeleteFunc(list.Servers, func(s operate.Shown) bool { return s.Backend == "tree" }) // of another world
	for _, s := range list.Servers {
		if s.Guard == 0 || s.Launcher == 0 {
			t.Errorf("%+v", s)
		}
	}
	if len(list.Servers) != 1+starts {
		t.Errorf("listed: %s", o.Stdout)
	}
}
