// SPDX-License-Identifier: Apache-2.0

//go:build linux

package sweep

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/groups"
)

func TestMain(m *testing.M) { bed.Main(m) }

func newGroup(t *testing.T, parent *cgroup.Group, name string) *group.ControlGroup {
	t.Helper()
	g, err := group.MakeGroup(parent, &protocol.Config{Name: name, Policy: protocol.DefaultPolicy()}, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// isOrphan is whether the rule of orphans finds one there.
func isOrphan(t *testing.T, parent *cgroup.Group, dir string) bool {
	t.Helper()
	g, err := FindOrphan(parent, dir, time.Now())
	if err != nil {
		t.Errorf("%s: %v", dir, err)
	}
	if g != nil {
		g.Close()
	}
	return g != nil
}

// sweepAll is a sweep that somebody has asked for, and what it leaves.
func sweepAll(t *testing.T, parent *cgroup.Group) (swept []Swept, left []string) {
	t.Helper()
	s := newSweeper(SweepFilter{}, nil)
	s.patient = true
	swept, err := s.result(s.sweep(parent, ""))
	left, childErr := parent.Children()
	if err := errors.Join(err, childErr); err != nil {
		t.Error(err)
	}
	return swept, left
}

// What the rule of orphans says of each state that a group can be in.
func TestOrphanRule(t *testing.T) {
	parent := groups.Directory(t)
	live := newGroup(t, parent, "live")
	defer live.Close()
	orphan := newGroup(t, parent, "orphan")
	orphan.Close() // its lock is free now
	unarmed := newGroup(t, parent, "unarmed")
	if err := unix.Fremovexattr(unarmed.Payload.FD(), group.AttrArmed); err != nil {
		t.Fatal(err)
	}
	unarmed.Close()
	halfMade, err := parent.Mkdir(protocol.DirectoryName("half", "made0000"), 0o700)
	if err != nil {
		t.Fatal(err)
	}
	defer halfMade.Close()
	for dir, want := range map[string]bool{
		live.Dir: false, orphan.Dir: true, unarmed.Dir: false, protocol.DirectoryName("half", "made0000"): false, "mcp-gone-02345678": false,
	} {
		if isOrphan(t, parent, dir) != want {
			t.Errorf("%s is an orphan: %v, want %v", dir, !want, want)
		}
	}
	if swept, left := sweepAll(t, parent); len(swept) != 1 || swept[0].Name != "orphan" ||
		swept[0].ID != orphan.ID || len(left) != 3 {
		t.Errorf("swept %+v, left %q", swept, left)
	}
}

// A supervisor that has not executed anything yet is not called as one. However long that takes, its group is in use;
// and the server may be there before it. Not so when a member has its place, or the launcher is gone.
func TestSupervisorIsBeingBorn(t *testing.T) {
	for name, c := range map[string]struct {
		born   func(*group.ControlGroup) *cgroup.Group // nil: the launcher dies instead
		orphan bool
	}{
		"the server was born first":   {func(g *group.ControlGroup) *cgroup.Group { return g.Payload }, false},
		"a member is beside its leaf": {func(g *group.ControlGroup) *cgroup.Group { return g.Top }, true},
		"a member has its place":      {func(g *group.ControlGroup) *cgroup.Group { return g.Supervisor }, true},
		"the launcher is gone":        {nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGroup(t, groups.Directory(t), "starts")
			defer g.Close()
			groups.Member(t, g.Supervisor)
			if isOrphan(t, g.Parent, g.Dir) {
				t.Error("it is an orphan at first")
			}
			if c.born == nil {
				launcherGone(t, g)
			} else {
				member(t, g, c.born(g))
			}
			if isOrphan(t, g.Parent, g.Dir) != c.orphan {
				t.Errorf("it is an orphan: %v, want %v", !c.orphan, c.orphan)
			}
		})
	}
}

// launcherGone has a group say that another process made it, which is no more.
func launcherGone(t *testing.T, g *group.ControlGroup) {
	t.Helper()
	self, err := group.Identify(os.Getpid())
	self.Start++
	if err := errors.Join(err, g.Payload.SetAttr(group.AttrLauncher, self.String())); err != nil {
		t.Fatal(err)
	}
}

// member starts a process with the group's mark that is born in one of its leaves, until the test ends.
func member(t *testing.T, g *group.ControlGroup, where *cgroup.Group) {
	t.Helper()
	pid := groups.Member(t, where)
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pidfd)
	if err := group.TagOf(g.ID).Put(pid, pidfd); err != nil {
		t.Fatal(err)
	}
}

// Two sweepers may meet at one group: the one that does not get the lock passes. A sweep that somebody has
// asked for takes over what the other leaves, which dies before it has removed the group.
func TestSweepersMeet(t *testing.T) {
	parent := groups.Directory(t)
	g := newGroup(t, parent, "orphan") // locked, as by the other sweeper
	defer g.Close()
	launcherGone(t, g)
	other := exec.Command("sleep", "infinity")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	sweeper, err := group.Identify(other.Process.Pid)
	if err := errors.Join(err, g.Payload.SetAttr(group.AttrSweeper, sweeper.String())); err != nil {
		t.Fatal(err)
	}
	if isOrphan(t, parent, g.Dir) {
		t.Error("a second sweeper got it, too")
	}
	passed := newSweeper(SweepFilter{}, nil)
	if swept, err := passed.result(passed.sweep(parent, "")); err != nil || len(swept) > 0 {
		t.Errorf("a sweep that nobody waits for: %+v (%v)", swept, err)
	}
	opened, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(opened)
	if _, err := unix.InotifyAddWatch(opened, fmt.Sprintf("/proc/self/fd/%d/cgroup.events", g.Top.FD()), unix.IN_OPEN); err != nil {
		t.Fatal(err)
	}
	go func() { // when the sweep has had a look; without, it finds the other dead at once
		_ = escape.PollFor(escape.Patience, unix.PollFd{Fd: int32(opened), Events: unix.POLLIN})
		_ = other.Process.Kill()
		_ = other.Wait() // it was killed
	}()
	if swept, left := sweepAll(t, parent); len(swept) != 1 || len(left) > 0 {
		t.Errorf("swept %+v, left %q", swept, left)
	}
}

// What a member does to its own group does not hide it from a sweep; nor does a scope stay that its manager
// never removes, since it has missed that nobody is left.
func TestSweepOfSpoiledGroups(t *testing.T) {
	for name, spoil := range map[string]func(*group.ControlGroup) error{
		"no supervisor/":         func(g *group.ControlGroup) error { return g.Top.Remove(protocol.SupervisorName) },
		"disarmed":               func(g *group.ControlGroup) error { return unix.Fremovexattr(g.Payload.FD(), group.AttrArmed) },
		"a scope that is missed": nil,
	} {
		t.Run(name, func(t *testing.T) {
			parent := groups.Directory(t)
			var adopt func(*group.ControlGroup)
			if spoil == nil {
				adopt = func(*group.ControlGroup) {}
			}
			g, err := group.MakeGroup(parent, &protocol.Config{Name: "spoiled",
				Policy: protocol.DefaultPolicy()}, spoil == nil, adopt)
			if err != nil {
				t.Fatal(err)
			}
			member(t, g, g.Payload)
			if spoil == nil {
				g.Taken(protocol.SystemdSystem)
			} else if err := spoil(g); err != nil {
				t.Fatal(err)
			}
			g.Close()
			swept, left := sweepAll(t, parent)
			if len(swept) != 1 || swept[0].Stuck != "" || slices.Contains(left, g.Dir) {
				t.Errorf("swept %+v, left %q", swept, left)
			}
		})
	}
}

// When a server that starts sweeps, by the mark that others have left: in virtual time.
func TestWhenAServerSweeps(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	for name, c := range map[string]struct {
		beside   int // directories
		mark     time.Duration
		ends     time.Duration // of the server; 0 is never
		min, max time.Duration // of the sweep
	}{
		"beside few the mark does not count": {beside: sweepFew, mark: time.Minute, max: ms},
		"beside many it does": {beside: 10, mark: 2 * s, min: 2 * s,
			max: 2*s + 2*10*sweepApart},
		"without one at once, almost": {beside: 10, max: 10*sweepApart + ms},
		"it puts a sweep off and prevents none": {beside: 10, mark: time.Minute, min: sweepAnyway,
			max: sweepAnyway + 100*ms + 2*10*sweepApart},
		"a server that has ended does not": {beside: 10, mark: 2 * s, ends: s},
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

// Any server can make many directories, and neither hurries nor prevents a sweep by that.
func TestSweepBesideManyDirectories(t *testing.T) {
	for _, n := range []int{0, 10, 20_000, 1_000_000} {
		for range 20 {
			if wait := seldom(n); wait < 0 || wait > sweepLater {
				t.Fatalf("beside %d directories a server sweeps after %v", n, wait)
			}
		}
	}
}

// A server that starts waits for the next sweep as long as the mark says, but not for a mark that none of
// us has made.
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
