// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/names"
)

// A limit that no server can have is one note with its remedy, whatever value the servers were to have.
func TestUnlimitedText(t *testing.T) {
	var notes []string
	for id, value := range map[string]string{"k3x9w2ab": "1", "5ufrukb6": "2"} {
		why := proc.Unsupported(fmt.Sprintf("/sys/fs/cgroup/system.slice/g.service/mcp-foo-%s has no controller memory", id))
		err := group.LimitError(cgroup.Limit{File: "memory.max", Value: value}, why)
		notes = append(notes, unlimitedText(err, id, names.Delegated))
	}
	const want = "memory.max: its group has no controller memory; for limits of memory: "
	if notes[0] != notes[1] || !strings.HasPrefix(notes[0], want) || len(notes[0]) > textMost {
		t.Errorf("%q, want %q", notes, want)
	}
	busy := group.LimitError(cgroup.Limit{File: "pids.max", Value: "1"}, errors.New("write /a/mcp-x-k3x9w2ab.scope/pids.max: busy"))
	if got := unlimitedText(busy, "k3x9w2ab", names.Cgroup); got != "pids.max: write its group: busy" {
		t.Errorf("%q for another cause", got)
	}
	if got := unlimitedText(group.ErrNoGroup, "k3x9w2ab", names.Tree); got != group.ErrNoGroup.Text {
		t.Errorf("%q for a tree", got)
	}
}
