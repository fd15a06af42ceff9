// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"testing"
	"time"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/test/groups"
)

// thawedMeanwhile is a group that another command thaws when a freeze has begun.
type thawedMeanwhile struct {
	*cgroup.Group
	freezes int
}

func (g *thawedMeanwhile) Freeze() error {
	g.freezes++
	if err := g.Group.Freeze(); err != nil {
		return err
	}
	return g.Group.Thaw()
}

// A freeze that is thawed before it is complete does not freeze again what the other command reports as thawed.
func TestFreezeDoesNotUndoAThaw(t *testing.T) {
	g := &thawedMeanwhile{Group: groups.Directory(t)}
	groups.Member(t, g.Group)
	if err := freezeAll(g, 100*time.Millisecond); err == nil {
		t.Error("frozen, although somebody has thawed it")
	}
	if g.freezes != 1 || group.Frozen(g) {
		t.Errorf("%d freezes; frozen now: %t", g.freezes, group.Frozen(g))
	}
}

// A thaw reports what it has seen: a freeze of a group above is somebody else's.
func TestThawBelowAFrozenGroup(t *testing.T) {
	above := groups.Directory(t)
	below, err := above.Mkdir("below", 0o700)
	if err != nil {
		t.Fatal(err)
	}
	defer below.Close()
	groups.Member(t, below)
	for _, g := range []*cgroup.Group{above, below} {
		if err := freezeAll(g, time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	if err := thawAll(below, below.ThawAlone); err == nil {
		t.Error("thawed, below a group that is frozen")
	}
	if err := thawAll(above, above.ThawAlone); err != nil || group.Frozen(below) {
		t.Errorf("%v; frozen: %t", err, group.Frozen(below))
	}
}
