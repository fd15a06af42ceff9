// SPDX-License-Identifier: Apache-2.0

//go:build linux

package sweep

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpscope/mcpscope/scope/internal/group"
	"github.com/mcpscope/mcpscope/test/groups"
)

// When a server that starts sweeps, by the mark that others have left: in virtual time.
func TestWhenAServerSweeps(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	for name, c := range map[string]struct {
		beside   int // directories
		mark     time.Duration
		ends     time.Duration // of the server; 0 is never
		min, max time.Duration // of the sweep
	}{
		"beside few the mark does not count":    {beside: sweepFew, mark: time.Minute, max: ms},
		"beside many it does":                   {beside: 10, mark: 2 * s, min: 2 * s, max: 2*s + 2*10*sweepApart},
		"without one at once, almost":           {beside: 10, max: 10*sweepApart + ms},
		"it puts a sweep off and prevents none": {beside: 10, mark: time.Minute, min: sweepAnyway, max: sweepAnyway + 100*ms + 2*10*sweepApart},
		"a server that has ended does not":      {beside: 10, mark: 2 * s, ends: s},
	} {
		t.Run(name, func(t *testing.T) {
			parent := groups.Directory(t)
			for i := range c.beside {
				child, err := parent.Mkdir(fmt.Sprint("other-", i), 0o700)
				if err != nil {
					t.Fatal(err)
				}
				child.Close()
			}
			synctest.Test(t, func(t *testing.T) {
				if c.mark > 0 {
					markNext(parent, c.mark)
				}
				hurry := newHurry()
				if c.ends > 0 {
					time.AfterFunc(c.ends, hurry.raise)
				}
				began := time.Now()
				sweepOnce(parent, "", hurry)
				switch took := time.Since(began); {
				case c.ends > 0:
					if left := untilNext(parent); took != c.ends || left != c.mark-c.ends {
						t.Errorf("ended after %v, and the mark is of %v later", took, left)
					}
				case took < c.min || took > c.max || untilNext(parent) != sweepEvery:
					t.Errorf("swept after %v, want %v to %v; the mark is of %v later", took, c.min, c.max, untilNext(parent))
				}
			})
		})
	}
}

// A sweeper that can't be looked at, for it is in another pid namespace, is waited for by looking again now and then: one look after
// the other would never let the time pass here.
func TestSweeperOfAnotherNamespace(t *testing.T) {
	parent := groups.Directory(t)
	g := newGroup(t, parent, "elsewhere")
	t.Cleanup(func() {
		_ = g.Remove() // with its directory, at the latest
		g.Close()
	})
	self, err := group.Identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	elsewhere, gone := self, self
	elsewhere.Namespace++
	gone.Start++
	for attr, who := range map[string]group.Identity{group.AttrLauncher: gone, group.AttrSweeper: elsewhere} {
		if err := g.Payload.SetAttr(attr, who.String()); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if awaitSweeper(parent, g.Dir, began.Add(time.Minute)) || time.Since(began) != time.Minute {
			t.Errorf("waited for %v", time.Since(began))
		}
	})
}

// A server that starts waits for the next sweep as long as the mark says, but not for a mark that none of us has made.
func TestMark(t *testing.T) {
	parent := groups.Directory(t)
	synctest.Test(t, func(t *testing.T) {
		if wait := untilNext(parent); wait > 0 {
			t.Errorf("%v without a mark", wait)
		}
		markNext(parent, time.Minute)
		if wait := untilNext(parent); wait != time.Minute {
			t.Errorf("%v of a minute", wait)
		}
		for _, mark := range []string{"", "soon", "-1", strconv.FormatInt(time.Now().UnixNano(), 10)} {
			if err := parent.SetAttr(group.AttrSwept, mark); err != nil {
				t.Fatal(err)
			}
			if wait := untilNext(parent); wait > 0 {
				t.Errorf("%v for the mark %q", wait, mark)
			}
		}
	})
}
