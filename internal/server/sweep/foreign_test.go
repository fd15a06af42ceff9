// SPDX-License-Identifier: Apache-2.0

package sweep

import (
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/test/groups"
)

// Any user can make the locks of the host take half a second to read. A sweep reads them once for many groups, also
// for those that look like orphans.
func TestReadingsOfLocks(t *testing.T) {
	for name, look := range map[string]func(*testing.T, *group.ControlGroup){
		"orphans that a member has locked": launcherGone,
		"no orphans":                       func(*testing.T, *group.ControlGroup) {},
	} {
		parent := groups.Directory(t)
		for range 8 {
			g := newGroup(t, parent, "locked")
			defer g.Close() // this process has its lock
			look(t, g)
		}
		read := groups.ReadingsOfLocks(t, func() { sweepOnce(t, parent, SweepFilter{DryRun: true}) })
		if read != 1 {
			t.Errorf("%s: a sweep reads the locks %d times, want 1", name, read)
		}
	}
}

// The wait for another sweep reads them as often as it must.
func TestReadingsOfLocksInAWait(t *testing.T) {
	parent := groups.Directory(t)
	lockAs(t, os.Getuid(), parent.Path())
	read := groups.ReadingsOfLocks(t, func() {
		isLocked, err := group.LockWithin(parent, os.Getuid(), time.Now().Add(100*time.Millisecond))
		if isLocked || err == nil {
			t.Error("the lock of another sweep is no error")
		}
	})
	if read > 2 {
		t.Errorf("a wait reads the locks %d times, want 2 at most", read)
	}
}

// A sweep spends a bounded time on the groups of another user. It stops some of them, whatever they cost, and says that
// it has not checked all. Own groups have no bound.
func TestAllowanceForAnotherUser(t *testing.T) {
	const more = 3
	for name, c := range map[string]struct {
		isForeign bool
		want      int
	}{
		"another user's": {isForeign: true, want: more},
		"own":            {},
	} {
		t.Run(name, func(t *testing.T) {
			parent := groups.Directory(t)
			makeOrphans(t, parent, sweepParallel+more)
			beside := groups.Directory(t)
			makeOrphans(t, beside, 1)
			s := &sweeper{}
			spendAll := sync.OnceFunc(func() {
				if s.foreign == nil {
					return
				}
				s.foreign.mu.Lock()
				defer s.foreign.mu.Unlock()
				s.foreign.looked = foreignLook + 1
			})
			visit := func() error {
				s.sweep(parent, group.OwnIn(parent), spendAll)
				s.sweep(beside, group.OwnIn(beside), func() {})
				return nil
			}
			err := visitAs(s, c.isForeign, visit)
			if left := len(group.OwnIn(parent)); left != c.want {
				t.Errorf("%d orphans are left, want %d", left, c.want)
			}
			isMissed := err != nil && strings.Contains(err.Error(), "not all groups of user 65534 in /theirs were checked")
			if left := len(group.OwnIn(beside)); left == 0 == c.isForeign || isMissed != c.isForeign {
				t.Errorf("%d of 1 orphan in another directory is left; the error is %v", left, err)
			}
			if s.foreign != nil {
				t.Error("the allowance is still there after the other user's tree")
			}
		})
	}
}

func visitAs(s *sweeper, isForeign bool, visit func() error) error {
	if isForeign {
		return s.visitForeign(stranger, "/theirs", visit)
	}
	return visit()
}

// makeOrphans makes groups without members, which a sweep removes.
func makeOrphans(t *testing.T, parent *cgroup.Group, number int) {
	t.Helper()
	for range number {
		g := newGroup(t, parent, "orphan")
		if err := unix.Flock(g.Payload.FD(), unix.LOCK_UN); err != nil {
			t.Fatal(err)
		}
		g.Close()
	}
}
