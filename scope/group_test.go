//go:build linux

package scope

import (
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/test/groups"
)

func newGroup(t *testing.T, parent *cgroup.Group, name string) *controlGroup {
	t.Helper()
	g, err := makeGroup(parent, &config{Name: name, Policy: DefaultPolicy()})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestMakeGroup(t *testing.T) {
	parent := groups.Directory(t)
	g := newGroup(t, parent, "a server/with: odd\tname")
	defer g.close()
	if strings.ContainsAny(g.dir, " /:\t") || !strings.HasSuffix(g.dir, "-"+g.id) || len(g.id) != 8 {
		t.Errorf("directory %q, id %q", g.dir, g.id)
	}
	if got, ok, err := g.payload.Attr(attrName); got != "a server/with: odd\tname" || !ok || err != nil {
		t.Errorf("the name is kept as %q (%v, %v)", got, ok, err)
	}
	again, err := parent.Child(g.dir + "/" + payloadName)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if err := again.TryLock(unix.LOCK_EX); !errors.Is(err, unix.EWOULDBLOCK) {
		t.Errorf("a second lock: %v", err)
	}
}

// What the rule of orphans says of each state that a group can be in.
func TestOrphanRule(t *testing.T) {
	parent := groups.Directory(t)
	live := newGroup(t, parent, "live")
	defer live.close()
	orphan := newGroup(t, parent, "orphan")
	orphan.close() // its lock is free now
	unarmed := newGroup(t, parent, "unarmed")
	if err := unix.Fremovexattr(unarmed.payload.FD(), attrArmed); err != nil {
		t.Fatal(err)
	}
	unarmed.close()
	halfMade, err := parent.Mkdir(directoryName("half", "made0000"), 0o700)
	if err != nil {
		t.Fatal(err)
	}
	defer halfMade.Close()
	for dir, want := range map[string]bool{
		live.dir: false, orphan.dir: true, unarmed.dir: false, directoryName("half", "made0000"): false, "mcp-gone-02345678": false,
	} {
		g, err := findOrphan(parent, dir, time.Now())
		if err != nil || (g != nil) != want {
			t.Errorf("%s is an orphan: %v (%v), want %v", dir, g != nil, err, want)
		}
		if g != nil {
			g.close()
		}
	}
	s := newSweeper(SweepFilter{}, nil)
	swept, err := s.result(s.sweep(parent, ""))
	if err != nil || len(swept) != 1 || swept[0].Name != "orphan" || swept[0].ID != orphan.id {
		t.Fatalf("swept %+v (%v)", swept, err)
	}
	left, err := parent.Children()
	if err != nil || len(left) != 3 {
		t.Fatalf("left: %q (%v)", left, err)
	}
}

// Two sweepers may meet at one group: the one that does not get the lock passes.
func TestSweepersDoNotMeet(t *testing.T) {
	parent := groups.Directory(t)
	orphan := newGroup(t, parent, "orphan")
	orphan.close()
	first, err := findOrphan(parent, orphan.dir, time.Now())
	if first == nil || err != nil {
		t.Fatalf("no orphan: %v", err)
	}
	defer first.close()
	// its launcher, this test, lives: so the locked group counts as in use
	if second, err := findOrphan(parent, orphan.dir, time.Now()); second != nil || err != nil {
		t.Fatalf("a second sweeper got it, too (%v)", err)
	}
}

// member starts a process with the group's mark that is born in its payload, until the test ends.
func member(t *testing.T, g *controlGroup) {
	t.Helper()
	pid := groups.Member(t, g.payload)
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pidfd)
	if err := markOf(g.id).Put(pid, pidfd); err != nil {
		t.Fatal(err)
	}
}

// What a member does to its own group does not hide it from a sweep.
func TestSweepOfSpoiledGroups(t *testing.T) {
	for name, spoil := range map[string]func(*controlGroup) error{
		"no supervisor/": func(g *controlGroup) error { return g.top.Remove(supervisorName) },
		"disarmed":       func(g *controlGroup) error { return unix.Fremovexattr(g.payload.FD(), attrArmed) },
	} {
		t.Run(name, func(t *testing.T) {
			parent := groups.Directory(t)
			g := newGroup(t, parent, "spoiled")
			member(t, g)
			if err := spoil(g); err != nil {
				t.Fatal(err)
			}
			g.close()
			s := newSweeper(SweepFilter{}, nil)
			swept, err := s.result(s.sweep(parent, ""))
			if left, _ := parent.Children(); err != nil || len(swept) != 1 || len(left) > 0 {
				t.Errorf("swept %+v (%v), left %q", swept, err, left)
			}
		})
	}
}

// In a frozen group nothing would run, and whoever forks into it would hang.
func TestFrozenPlace(t *testing.T) {
	parent := groups.Directory(t)
	if err := parent.SetFrozen(true); err != nil {
		t.Fatal(err)
	}
	defer parent.SetFrozen(false)
	if g, err := makeGroup(parent, &config{Name: "x"}); !errors.Is(err, unix.EBUSY) {
		t.Errorf("%v, %v", g, err)
	}
	if left, _ := parent.Children(); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// A member that keeps a group from being removed keeps all of it.
func TestRemoveOfAGroupWithAMember(t *testing.T) {
	parent := groups.Directory(t)
	g := newGroup(t, parent, "busy")
	defer g.close()
	groups.Member(t, g.payload)
	if err := g.remove(); !errors.Is(err, unix.EBUSY) {
		t.Errorf("remove: %v", err)
	}
	if left, _ := g.top.Children(); len(left) != 2 {
		t.Errorf("left of it: %q", left)
	}
}

// A sweeper that dies before it has ended an orphan must not make another believe that it
// is cared for.
func TestSweepOutlivesAnotherSweeper(t *testing.T) {
	parent := groups.Directory(t)
	g := newGroup(t, parent, "held") // locked, as by the other sweeper
	member(t, g)
	other := exec.Command("sleep", "100")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	id, err := identify(other.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	gone := identity{PID: id.PID, Start: id.Start + 1, Namespace: id.Namespace}
	if err := errors.Join(g.payload.SetAttr(attrLauncher, gone.String()), g.payload.SetAttr(attrSweeper, id.String())); err != nil {
		t.Fatal(err)
	}
	found := make(chan *suspect)
	go func() {
		orphan, _ := findOrphan(parent, g.dir, time.Now().Add(time.Minute)) // nil is what the test looks for
		found <- orphan
	}()
	g.close() // the other sweeper's lock ends with it
	_ = other.Process.Kill()
	_ = other.Wait()
	orphan := <-found
	if orphan == nil {
		t.Fatal("it was left to a sweeper that is dead")
	}
	if _, err := orphan.end(0, nil); err != nil {
		t.Error(err)
	}
}

// A launcher that was stopped between its directory and the lock may find both gone; lock and
// attributes succeed all the same.
func TestMakeGroupBesideASweepThatRemoves(t *testing.T) {
	parent := groups.Directory(t)
	over := make(chan struct{})
	removed := make(chan int)
	go func() { // what removeNewborn does, to groups of any age
		n := 0
		for {
			select {
			case <-over:
				removed <- n
				return
			default:
			}
			dirs, _ := parent.Children()
			for _, dir := range dirs {
				g := &controlGroup{dir: dir, parent: parent}
				var err error
				if g.top, err = parent.Child(dir); err == nil {
					g.payload, err = g.top.Child(payloadName)
				}
				if err == nil && g.payload.TryLock(unix.LOCK_EX) == nil && g.removeLeaves() == nil {
					n++
				}
				g.close()
			}
		}
	}()
	for range 300 {
		g, err := makeGroup(parent, &config{Name: "x", Policy: DefaultPolicy()})
		if err != nil {
			continue // 16 were removed one after the other
		}
		if _, err := g.payload.Read("cgroup.procs"); err != nil {
			t.Fatalf("a group that is not there: %v", err)
		}
		_ = g.remove()
		g.close()
	}
	close(over)
	if n := <-removed; n == 0 {
		t.Error("no group was removed: this tests nothing")
	}
}
