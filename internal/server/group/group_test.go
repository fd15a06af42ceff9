// SPDX-License-Identifier: Apache-2.0

package group

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/names"
	"github.com/mcpscope/mcpscope/internal/server/policy"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/groups"
)

func TestMain(m *testing.M) { bed.Main(m) }

func made(parent *cgroup.Group, name string) (*ControlGroup, error) {
	config := protocol.NewConfig()
	config.Facts.Name = name
	config.Facts.Policy = policy.Default()
	g := New(names.NewID(), config, names.Cgroup, false)
	return g, g.Make(parent, config)
}

func newGroup(t *testing.T, parent *cgroup.Group, name string) *ControlGroup {
	t.Helper()
	g, err := made(parent, name)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestMakeGroup(t *testing.T) {
	parent := groups.Directory(t)
	g := newGroup(t, parent, "a server/with: odd\tname")
	defer g.Close()
	if strings.ContainsAny(g.Dir, " /:\t") || !strings.HasSuffix(g.Dir, "-"+g.ID) || len(g.ID) != 8 {
		t.Errorf("directory %q, id %q", g.Dir, g.ID)
	}
	if got := g.Attributes().Facts().Name; got != "a server/with: odd\tname" {
		t.Errorf("the name is kept as %q", got)
	}
	again, err := parent.Child(g.Dir)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if err := again.TryLock(unix.LOCK_EX); !errors.Is(err, unix.EWOULDBLOCK) {
		t.Errorf("a second lock: %v", err)
	}
}

// In a frozen group no process would run.
func TestFrozenPlace(t *testing.T) {
	parent := groups.Directory(t)
	if err := parent.Freeze(); err != nil {
		t.Fatal(err)
	}
	defer parent.Thaw()
	if g, err := made(parent, "x"); !errors.Is(err, unix.EBUSY) {
		t.Errorf("%v, %v", g, err)
	}
	if left, _ := parent.Children(); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// A tree has no directory: nothing is parked, and its tag is looked for all the same.
func TestTreeHasNoDirectory(t *testing.T) {
	g := NewTree(names.NewID(), Below(freeze.Root{PID: os.Getpid(), PIDFD: -1}, 0))
	g.Park()
	if g.Membership().Tagged() == nil || g.Top() != nil {
		t.Error("it has a directory")
	}
	if err := g.Remove(); err != nil {
		t.Error(err)
	}
}

// A manager gets a pid, and may put another process into the scope if the guard has ended meanwhile. Such a
// process is moved out, and the next guard stays.
func TestMoveGuardThatHasEnded(t *testing.T) {
	parent := groups.Directory(t)
	config := protocol.NewConfig()
	config.Facts.Name = "reused"
	config.Facts.Policy = policy.Default()
	g := New(names.NewID(), config, names.SystemdSystem, true)
	if err := g.Make(parent, config); err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	ended := exec.Command("true")
	if err := ended.Start(); err != nil {
		t.Fatal(err)
	}
	pidfd, err := unix.PidfdOpen(ended.Process.Pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pidfd)
	_ = ended.Wait() // it is reaped
	next := filepath.Join(t.TempDir(), names.GuardPrefix+g.ID)
	sleep, err := exec.LookPath("sleep")
	if err == nil {
		err = os.Symlink(sleep, next)
	}
	if err != nil {
		t.Fatal(err)
	}
	for program, stays := range map[string]bool{sleep: false, next: true} {
		cmd := exec.Command(program, "infinity")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() {
			_ = cmd.Process.Kill() // it sleeps
			_ = cmd.Wait()         // killed
		}()
		pid := cmd.Process.Pid
		if err := g.Top().Take(pid); err != nil {
			t.Fatal(err)
		}
		if err := g.Guard().Move(freeze.Root{PID: pid, PIDFD: pidfd}); err != nil {
			t.Fatal(err)
		}
		where, err := proc.ReadCgroup(pid)
		if err != nil {
			t.Fatal(err)
		}
		if inScope := filepath.Base(where) == g.Dir; inScope != stays {
			t.Errorf("%s is in %s", program, where)
		}
		_ = g.Guards.Close() // a directory
	}
	g.Guards = nil
}

// A scope that was parked has one descriptor, and opens the directory above its payload when it ends.
// A daemon that ends while it is moved is not kept: it would be listed as one that runs.
func TestMoveKeptThatHasEnded(t *testing.T) {
	parent := groups.Directory(t)
	g := newGroup(t, parent, "keeps")
	dir, err := parent.Mkdir("kept", GroupMode)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	if err := g.Membership().MoveKept(cmd.Process.Pid, &KeptGroup{Dir: dir}); !errors.Is(err, unix.ESRCH) {
		t.Errorf("a process that has ended: %v", err)
	}
}

func TestPark(t *testing.T) {
	parent := groups.Directory(t)
	config := protocol.NewConfig()
	config.Facts.Name = "parked"
	config.Facts.Policy = policy.Default()
	g := New(names.NewID(), config, names.SystemdSystem, true)
	err := g.Make(parent, config)
	if err == nil {
		defer g.Close()
		g.Guards, err = Leaf(g.Top())
	}
	if err != nil {
		t.Fatal(err)
	}
	g.Park()
	g.Park() // as that of a watcher that was never adopted
	if g.top != nil || g.Guards != nil {
		t.Errorf("it has more than its payload: %+v", g)
	}
	if !g.Manager().HasScope() {
		t.Error("its leaf for guards is not found")
	}
	above, own := g.Beside()
	if above == nil || own != g.Dir {
		t.Fatalf("beside it: %v, %q", above, own)
	}
	defer above.Close()
	if !above.Same(parent) {
		t.Errorf("beside it: %s, want %s", above.Path(), parent.Path())
	}
	if err := g.RemoveWhole(); err != nil {
		t.Error(err)
	}
	g.Park()
	if err := g.RemoveWhole(); err != nil {
		t.Errorf("after its removal: %v", err)
	}
}

// A group is entered by pid. A process that has got the pid of one that has ended goes back, but for a child of
// a member, which has the tag.
func TestExpel(t *testing.T) {
	parent := groups.Directory(t)
	before, err := parent.Mkdir("before", 0o755)
	if err != nil {
		t.Fatal(err)
	}
	defer before.Close()
	for _, isTagged := range []bool{false, true} {
		g := newGroup(t, parent, "expels")
		defer g.Close()
		stranger := exec.Command("sleep", "600")
		if err := stranger.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() {
			_ = stranger.Process.Kill() // our child
			_ = stranger.Wait()
		}()
		pid := stranger.Process.Pid
		if err := g.Membership().Take(pid, -1); err != nil {
			t.Fatal(err)
		}
		if isTagged {
			if err := g.Membership().Tag(); err != nil {
				t.Fatal(err)
			}
		}
		g.Membership().Expel(pid, before)
		pids, err := before.Members()
		if isBack := slices.Contains(pids, pid); err != nil || isBack == isTagged {
			t.Errorf("tagged %t: it is back: %t, %v", isTagged, isBack, err)
		}
	}
}

// A group is removed as a whole, or not at all.
func TestRemoveOfAGroupWithAMember(t *testing.T) {
	parent := groups.Directory(t)
	g := newGroup(t, parent, "busy")
	defer g.Close()
	groups.Member(t, g.Payload)
	if err := g.Remove(); !errors.Is(err, unix.EBUSY) {
		t.Errorf("remove: %v", err)
	}
	if left, _ := parent.Children(); len(left) != 1 {
		t.Errorf("left of it: %q", left)
	}
}

// A launcher that was stopped between its directory and the lock may find both gone; lock and attributes
// succeed all the same. The loop ends when a sweep has removed some groups, however long the two take to
// meet.
func TestMakeGroupBesideASweepThatRemoves(t *testing.T) {
	parent := groups.Directory(t)
	var removed atomic.Int32
	const enough = 50
	var sweep sync.WaitGroup
	sweep.Go(func() { // what removeNeverArmed of a sweep does, to groups of any age
		for removed.Load() < enough {
			dirs, _ := parent.Children()
			for _, dir := range dirs {
				g, err := Open(parent, dir)
				if err == nil && g.Payload.TryLock(unix.LOCK_EX) == nil && g.RemoveLeaves() == nil {
					removed.Add(1)
				}
				g.Close()
			}
		}
	})
	defer sweep.Wait()
	for removed.Load() < enough {
		g, err := made(parent, "x")
		if err != nil {
			continue // it was removed
		}
		if _, err := g.Payload.Read("cgroup.procs"); err != nil {
			t.Errorf("a group that is not there: %v", err)
			removed.Store(enough)
		}
		_ = g.Remove()
		g.Close()
	}
}

func TestIdentity(t *testing.T) {
	self, err := Identify(unix.Getpid())
	if err != nil || !Alive(self) {
		t.Fatalf("%v, %v", self, err)
	}
	reused := self
	reused.Start++
	if Alive(reused) {
		t.Error("another process of this pid counts as the one")
	}
	elsewhere := reused
	elsewhere.Namespace++
	if !Alive(elsewhere) {
		t.Error("a process that another pid namespace numbers so counts as dead")
	}
}

// A member cannot name other files as limits.
func TestLimitsNow(t *testing.T) {
	g := newGroup(t, groups.Directory(t), "named")
	defer g.Close()
	if all := g.Limits().now(); len(all) > 0 {
		t.Errorf("without a limit: %v", all)
	}
	if err := g.Payload.SetAttr(AttrLimits, "cgroup.max.depth cgroup.freeze ../cgroup.procs /etc/passwd nope \x00 .. "+strings.Repeat("cgroup.stat ", 1000)); err != nil {
		t.Fatal(err)
	}
	all := g.Limits().now()
	if len(all) != 3 || all["cgroup.max.depth"] != "max" || all["cgroup.freeze"] != "0" || !strings.HasPrefix(all["cgroup.stat"], "nr_descendants 0, ") {
		t.Errorf("%v", all)
	}
}

// A file that its kernel has not, or that takes no such value, is no limit.
func TestLimitThatDoesNotHold(t *testing.T) {
	g := newGroup(t, groups.Directory(t), "odd")
	defer g.Close()
	for _, l := range []cgroup.Limit{{File: "cgroup.nope", Value: "1"}, {File: "cgroup.freeze", Value: "7"}, {File: "cgroup.events", Value: "1"}, {File: "nope.max", Value: "1"}} {
		var limit *protocol.LimitError
		if now, err := g.Limits().Set(l); !errors.As(err, &limit) || !strings.HasPrefix(err.Error(), "set "+l.String()+": ") {
			t.Errorf("%s: %q, %v", l, now, err)
		}
	}
}
