// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"os"
	"slices"
	"testing"

	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// The pid of a client is its own only while it lives, and in its own pid namespace.
func TestClientAncestry(t *testing.T) {
	own, err := group.Identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := own
	elsewhere.Namespace++
	reused := own
	reused.Start++
	parent := os.Getppid()
	for name, c := range map[string]struct {
		client protocol.Identity
		want   []int
	}{
		"no client":       {protocol.Identity{Namespace: own.Namespace}, nil},
		"a client":        {own, []int{own.PID, parent}},
		"in a container":  {elsewhere, []int{own.PID}},
		"an ended client": {reused, nil},
	} {
		s := &Listed{}
		s.Facts.Client = protocol.ClientFacts{PID: c.client.PID, Start: c.client.Start, Name: "hermes"}
		s.Facts.Launcher.Namespace = c.client.Namespace
		var got []int
		for _, p := range s.ClientAncestry() {
			got = append(got, p.PID)
		}
		if len(got) > 2 { // the ancestors of the parent
			got = got[:2]
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
