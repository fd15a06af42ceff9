// SPDX-License-Identifier: Apache-2.0

//go:build linux

package sweep

import (
	"testing"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/scope/internal/group"
	"github.com/mcpscope/mcpscope/scope/internal/protocol"
)

func newGroup(t *testing.T, parent *cgroup.Group, name string) *group.ControlGroup {
	t.Helper()
	g, err := group.MakeGroup(parent, &protocol.Config{Name: name, Policy: protocol.DefaultPolicy()}, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	return g
}
