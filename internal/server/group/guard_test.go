// SPDX-License-Identifier: Apache-2.0

package group

import (
	"testing"

	"github.com/mcpscope/mcpscope/internal/server/names"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/test/groups"
)

// A manager puts a guard into its scope, where it goes on into a leaf. Whoever looks meanwhile finds it.
func TestGuardOnItsWay(t *testing.T) {
	const id = "way23456"
	top := groups.Directory(t)
	leaf, err := top.Mkdir(names.GuardsName, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = leaf.Close()
		_ = top.Remove(names.GuardsName)
	})
	payload, err := top.Mkdir("payload", 0o755)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = payload.Close()
		_ = top.Remove("payload")
	})
	pid := groups.Guard(t, top, names.GuardPrefix+id)
	guard := (&ControlGroup{Placed: protocol.Placed{ID: id, Managed: true}, Payload: payload}).Guard()
	for round := range 200 {
		if err := top.Take(pid); err != nil {
			t.Fatal(err)
		}
		moved := make(chan error)
		go func() { moved <- leaf.Take(pid) }()
		for range 4 {
			if found, _ := guard.PIDInScope(); found != pid {
				t.Fatalf("round %d: the guard %d is not found: %d", round, pid, found)
			}
		}
		if err := <-moved; err != nil {
			t.Fatal(err)
		}
	}
}
