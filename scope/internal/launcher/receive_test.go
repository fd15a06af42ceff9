// SPDX-License-Identifier: Apache-2.0

//go:build linux

package launcher

import (
	"testing"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/scope/internal/group"
	"github.com/mcpscope/mcpscope/scope/internal/protocol"
	"github.com/mcpscope/mcpscope/test/groups"
)

// claimed is a group of which somebody says that it is empty.
type claimed struct {
	group.Launched
	payload *cgroup.Group
}

func (g claimed) Members() group.Payload { return g.payload }
func (g claimed) KillSupervisor()        {}
func (g claimed) Remove() error          { return nil }

// A server of root's can take the control socket from its supervisor, and send the last word itself.
func TestLastWordIsChecked(t *testing.T) {
	t.Parallel()
	ours, theirs, err := protocol.NewControl()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	defer theirs.Close()
	g := claimed{payload: groups.Directory(t)}
	groups.Member(t, g.payload)
	status := 0
	if err := theirs.Send(protocol.Message{Type: protocol.SayEnded, Status: &status}); err != nil {
		t.Fatal(err)
	}
	l := &launcher{control: ours, group: g}
	if done, err := l.receive(); !done || err != nil {
		t.Errorf("done: %v, %v", done, err)
	}
	if group.Populated(g.payload) {
		t.Error("the launcher took the word for it, and a member lives")
	}
}
