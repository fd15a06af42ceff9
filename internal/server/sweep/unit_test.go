// SPDX-License-Identifier: Apache-2.0

package sweep

import (
	"testing"

	"github.com/mcpscope/mcpscope/test/groups"
)

// A server that starts while the unit of another stops may be a scope that has no payload yet.
func TestUnitStopBesideAScopeWithoutPayload(t *testing.T) {
	parent := groups.Directory(t)
	if _, err := parent.Mkdir("mcp-starts-0234abcd.scope", 0o755); err != nil {
		t.Fatal(err)
	}
	g, err := openGroup(parent, "mcp-starts-0234abcd.scope")
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	(&unitStop{unit: "some.service", kills: true}).awaitServer(g)
}
