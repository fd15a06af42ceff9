// SPDX-License-Identifier: Apache-2.0

package sweep

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/server/backend"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/names"
	"github.com/mcpscope/mcpscope/internal/server/orphan"
	"github.com/mcpscope/mcpscope/internal/server/page"
	"github.com/mcpscope/mcpscope/internal/server/policy"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/facts"
	"github.com/mcpscope/mcpscope/test/groups"
)

func TestMain(m *testing.M) { bed.Main(m) }

func newGroup(t *testing.T, parent *cgroup.Group, name string) *group.ControlGroup {
	t.Helper()
	return newScope(t, parent, name, false)
}

func newScope(t *testing.T, parent *cgroup.Group, name string, managed bool) *group.ControlGroup {
	t.Helper()
	self, err := group.Identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	facts := protocol.NewConfig()
	facts.Facts.Name = name
	facts.Facts.Policy = policy.Default()
	facts.Facts.Launcher = self
	g := group.New(names.NewID(), facts, names.Cgroup, managed)
	if err := g.Make(parent, facts); err != nil {
		t.Fatal(err)
	}
	return g
}

// unlock closes a group that this process has made, without its lock. A child that another test forks has a copy of the
// descriptor until its execve closes that, which may be after the fork has returned here (begin_new_exec in fs/exec.c).
func unlock(g *group.ControlGroup) {
	_ = unix.Flock(g.Payload.FD(), unix.LOCK_UN) // of all copies
	g.Close()
}

// finds is whether the rule of orphans finds one there.
func finds(t *testing.T, parent *cgroup.Group, dir string) bool {
	t.Helper()
	seen := orphan.TakeCensus(parent, orphan.NewLocks())
	isOrphan, err := (&sweeper{}).tend(parent, dir, seen) // no group is unclear only for some time
	if err != nil {
		t.Errorf("%s: %v", dir, err)
	}
	return isOrphan
}

// sweepAll sweeps, and lists the groups that are left.
func sweepAll(t *testing.T, parent *cgroup.Group) (swept []Swept, left []string) {
	t.Helper()
	s := &sweeper{}
	s.sweep(parent, group.OwnIn(parent), func() {})
	left, err := parent.Children()
	if err := errors.Join(append(s.errs, err)...); err != nil {
		t.Error(err)
	}
	return s.done, left
}

// The verdict for each state of a group.
func TestOrphanRule(t *testing.T) {
	parent := groups.Directory(t)
	live := newGroup(t, parent, "live")
	defer live.Close()
	orphan := newGroup(t, parent, "orphan")
	unlock(orphan)
	unarmed := newGroup(t, parent, "unarmed")
	if err := unix.Fremovexattr(unarmed.Payload.FD(), group.AttrArmed); err != nil {
		t.Fatal(err)
	}
	unlock(unarmed)
	halfMade, err := parent.Mkdir(names.DirectoryName("half", "made0000"), 0o700)
	if err != nil {
		t.Fatal(err)
	}
	defer halfMade.Close()
	for dir, want := range map[string]bool{
		live.Dir: false, orphan.Dir: true, unarmed.Dir: false, names.DirectoryName("half", "made0000"): false, "mcp-gone-02345678": false,
	} {
		if finds(t, parent, dir) != want {
			t.Errorf("%s is an orphan: %v, want %v", dir, !want, want)
		}
	}
	alive := newGroup(t, parent, "alive")
	member(t, alive, alive.Payload)
	unlock(alive)
	// An empty directory is removed, and is no server that was stopped.
	if swept, left := sweepAll(t, parent); len(swept) != 1 || swept[0].Name != "alive" ||
		swept[0].ID != alive.ID || len(left) != 3 {
		t.Errorf("swept %+v, left %q", swept, left)
	}
}

// A group is in use while its launcher or its guard lives. A member that moves to the leaf of guards and
// takes the name of a guard does not count.
func TestWhoGuards(t *testing.T) {
	for name, c := range map[string]struct{ launcher, guard, gateway, tagged, orphan bool }{
		"launcher alone":                        {launcher: true},
		"guard alone":                           {guard: true},
		"a gateway's guard alone":               {gateway: true},
		"neither":                               {orphan: true},
		"a member that pretends":                {guard: true, tagged: true, orphan: true},
		"a member that pretends to be of those": {gateway: true, tagged: true, orphan: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			parent := groups.Directory(t)
			g := newGroup(t, parent, "guarded")
			defer g.Close()
			member(t, g, g.Payload)
			if c.guard || c.gateway {
				called := names.GuardPrefix + g.ID
				if c.gateway {
					called = page.GatewayGuard
				}
				pid := calledGuard(t, parent, called)
				if c.tagged {
					tag(t, g, pid)
				}
				if c.gateway {
					guardedBy(t, g, pid)
				}
			}
			if !c.launcher {
				launcherGone(t, g)
			}
			if finds(t, parent, g.Dir) != c.orphan {
				t.Errorf("it is an orphan: %v, want %v", !c.orphan, c.orphan)
			}
		})
	}
}

// guardedBy has a group say that this process is the guard of its gateway.
func guardedBy(t *testing.T, g *group.ControlGroup, pid int) {
	t.Helper()
	guard, err := group.Identify(pid)
	if err != nil {
		t.Fatal(err)
	}
	facts.Set(t, g.Payload.Path(), func(f *protocol.Facts) { f.Guard = guard })
}

// calledGuard starts a process that is where guards are, and called like one.
func calledGuard(t *testing.T, parent *cgroup.Group, called string) int {
	t.Helper()
	leaf, err := group.Leaf(parent)
	if err != nil {
		t.Fatal(err)
	}
	defer leaf.Close()
	return groups.Guard(t, leaf, called)
}

// launcherGone has a group say that another process made it, which is no more.
func launcherGone(t *testing.T, g *group.ControlGroup) {
	t.Helper()
	self, err := group.Identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	self.Start++
	facts.Set(t, g.Payload.Path(), func(f *protocol.Facts) { f.Launcher = self })
}

// member starts a process with the group's tag that is born in one of its leaves, until the test ends.
func member(t *testing.T, g *group.ControlGroup, where *cgroup.Group) {
	t.Helper()
	tag(t, g, groups.Member(t, where))
}

func tag(t *testing.T, g *group.ControlGroup, pid int) {
	t.Helper()
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pidfd)
	if err := group.TagOf(g.ID).Put(pid, pidfd); err != nil {
		t.Fatal(err)
	}
}

// A start does not sweep beside another sweep. The command waits for the other sweep, for a bounded time: a
// server can hold the lock.
func TestSweepersMeet(t *testing.T) {
	parent := groups.Directory(t)
	orphan := newGroup(t, parent, "orphan")
	unlock(orphan)
	other := again(t, parent)
	if err := other.TryLock(unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	BeginSweep(again(t, parent), "").Await()
	if left, err := parent.Children(); err != nil || len(left) != 1 {
		t.Errorf("%q, %v after a sweep that was not to be", left, err)
	}
	_ = other.Close()
	BeginSweep(again(t, parent), "").Await()
	if left, err := parent.Children(); err != nil || len(left) != 0 {
		t.Errorf("%q, %v after a sweep", left, err)
	}
}

// Of starts in a row one sweeps, and looks so late that it finds what the others have left to it.
func TestSweepOfMany(t *testing.T) {
	parent := groups.Directory(t)
	const servers = 30
	for range servers {
		g := newGroup(t, parent, "server")
		defer g.Close() // this process has its lock
	}
	locked := lockForSweep(again(t, parent))
	if len(locked) != 1 {
		t.Fatalf("the first start sweeps in %d directories", len(locked))
	}
	orphan := newGroup(t, parent, "orphan")
	unlock(orphan)
	if others := lockForSweep(again(t, parent)); len(others) > 0 {
		t.Errorf("another start sweeps in %d directories beside the first", len(others))
	}
	beginSweep(locked, "").Await()
	if left := group.OwnIn(parent); len(left) != servers {
		t.Errorf("%d groups are left, of %d servers", len(left), servers)
	}
	begin := time.Now()
	BeginSweepOfMany(again(t, parent), "").Await()
	if took := time.Since(begin); took < servers*gatherEach {
		t.Errorf("the sweep of a start beside %d servers was over after %v", servers, took)
	}
}

// again opens a directory once more.
func again(t *testing.T, dir *cgroup.Group) *cgroup.Group {
	t.Helper()
	other, err := dir.Child(".")
	if err != nil {
		t.Fatal(err)
	}
	return other
}

// A member cannot hide its group from a sweep. A scope whose manager missed the end is removed.
func TestSweepOfSpoiledGroups(t *testing.T) {
	for name, spoil := range map[string]func(*group.ControlGroup) error{
		"disarmed":               func(g *group.ControlGroup) error { return unix.Fremovexattr(g.Payload.FD(), group.AttrArmed) },
		"a scope that is missed": nil,
	} {
		t.Run(name, func(t *testing.T) {
			parent := groups.Directory(t)
			g := newScope(t, parent, "spoiled", spoil == nil)
			member(t, g, g.Payload)
			if spoil == nil {
				leaf, err := group.Leaf(g.Top()) // as its manager's
				if err != nil {
					t.Fatal(err)
				}
				_ = leaf.Close()
			} else if err := spoil(g); err != nil {
				t.Fatal(err)
			}
			unlock(g)
			swept, left := sweepAll(t, parent)
			if len(swept) != 1 || swept[0].Stuck != "" || slices.Contains(left, g.Dir) {
				t.Errorf("swept %+v, left %q", swept, left)
			}
		})
	}
}

// The cost of a sweep that finds nothing grows with the number of servers, and not with its square. The
// test counts the bytes that the sweep reads, which no load changes.
func TestCostGrowsWithTheServers(t *testing.T) {
	for name, guarded := range map[string]bool{"guarded": true, "by launchers alone": false} {
		few := bytesOfASweep(t, 4, guarded)
		many := bytesOfASweep(t, 32, guarded)
		if many > 10*few {
			t.Errorf("%s: a sweep beside 4 servers reads %d bytes, beside 32 %d", name, few, many)
		}
	}
}

// bytesOfASweep returns how much one sweep reads beside servers that are in use.
func bytesOfASweep(t *testing.T, servers int, guarded bool) uint64 {
	t.Helper()
	parent := groups.Directory(t)
	for range servers {
		g := newGroup(t, parent, "server")
		defer g.Close() // this process has its lock
		if guarded {
			calledGuard(t, parent, names.GuardPrefix+g.ID)
		}
	}
	before := groups.BytesRead(t)
	BeginSweep(again(t, parent), "").Await()
	sweepAll(t, parent)
	read := groups.BytesRead(t) - before
	if left := len(group.OwnIn(parent)); left != servers {
		t.Errorf("%d of %d servers are left", left, servers)
	}
	return read
}

// The sweep of a start finds the orphans of a session beside its group, and, in a session, those of others. The
// whole sweep removes an empty session, and leaves one alone that has a process or is being made.
func TestSessions(t *testing.T) {
	for name, startsInside := range map[string]bool{"outside": false, "in another session": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			parent := groups.Directory(t)
			session := newSession(t, parent)
			orphan := newGroup(t, session, "orphan")
			member(t, orphan, orphan.Payload)
			unlock(orphan)
			start := parent
			if startsInside {
				start = newSession(t, parent)
			}
			BeginSweep(again(t, start), "").Await()
			left, err := session.Children()
			if err != nil || slices.Contains(left, orphan.Dir) {
				t.Errorf("left in the session: %q (%v)", left, err)
			}
		})
	}
	t.Run("removal", func(t *testing.T) {
		t.Parallel()
		parent := groups.Directory(t)
		empty := newSession(t, parent)
		makeOld(t, empty)
		left := newSession(t, parent) // just now, by an agent that had locked it
		if err := left.SetAttr(backend.AttrClaimed, "1"); err != nil {
			t.Fatal(err)
		}
		newborn := newSession(t, parent) // its maker has not locked it yet
		held := newSession(t, parent)
		makeOld(t, held)
		if err := held.TryLock(unix.LOCK_EX); err != nil {
			t.Fatal(err)
		}
		used := newSession(t, parent)
		g := newGroup(t, used, "used")
		defer g.Close()
		member(t, g, g.Payload)
		for _, s := range []*cgroup.Group{empty, left, newborn, held, used} {
			if err := backend.RemoveSession("/somewhere", parent, filepath.Base(s.Path())); err != nil {
				t.Error(err)
			}
		}
		for s, stays := range map[*cgroup.Group]bool{empty: false, left: false, newborn: true, held: true, used: true} {
			if _, err := os.Stat(s.Path()); (err == nil) != stays {
				t.Errorf("%s stays: %v, want %v", s.Path(), !stays, stays)
			}
		}
	})
}

// newSession makes an empty session, which the test closes.
func newSession(t *testing.T, parent *cgroup.Group) *cgroup.Group {
	t.Helper()
	session, err := parent.Mkdir(names.NewSession("claude-code"), group.GroupMode)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() }) // a directory
	return session
}
