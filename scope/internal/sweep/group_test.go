// SPDX-License-Identifier: Apache-2.0

//go:build linux

package sweep

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/linux"
	"github.com/mcpscope/mcpscope/scope/internal/group"
	"github.com/mcpscope/mcpscope/scope/internal/protocol"
	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/groups"
)

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
		g, err := FindOrphan(parent, dir, time.Now())
		if err != nil || (g != nil) != want {
			t.Errorf("%s is an orphan: %v (%v), want %v", dir, g != nil, err, want)
		}
		if g != nil {
			g.Close()
		}
	}
	s := newSweeper(SweepFilter{}, nil)
	swept, err := s.result(s.sweep(parent, ""))
	if err != nil || len(swept) != 1 || swept[0].Name != "orphan" || swept[0].ID != orphan.ID {
		t.Fatalf("swept %+v (%v)", swept, err)
	}
	left, err := parent.Children()
	if err != nil || len(left) != 3 {
		t.Fatalf("left: %q (%v)", left, err)
	}
}

// A supervisor that has not executed anything yet is not called as one. However long that takes, its group is in use;
// and the server may be there before it, for it is born first. Not so when a member has its place, or the launcher is gone.
func TestSupervisorIsBeingBorn(t *testing.T) {
	for name, c := range map[string]struct {
		spoil  func(t *testing.T, g *group.ControlGroup) error
		orphan bool
	}{
		"unborn": {func(*testing.T, *group.ControlGroup) error { return nil }, false},
		"the server was born first": {func(t *testing.T, g *group.ControlGroup) error {
			member(t, g, g.Payload)
			return nil
		}, false},
		"a manager has put it beside its leaf": {func(t *testing.T, g *group.ControlGroup) error {
			member(t, g, g.Payload)
			leaf, err := g.Supervisor.Members()
			for _, pid := range leaf {
				err = errors.Join(err, g.Top.Take(pid))
			}
			return err
		}, false},
		"a member is beside its leaf": {func(t *testing.T, g *group.ControlGroup) error {
			member(t, g, g.Top)
			return nil
		}, true},
		"a member has its place": {func(t *testing.T, g *group.ControlGroup) error {
			member(t, g, g.Supervisor)
			return nil
		}, true},
		"the launcher is gone": {func(_ *testing.T, g *group.ControlGroup) error {
			self, err := group.Identify(os.Getpid())
			self.Start++
			return errors.Join(err, g.Payload.SetAttr(group.AttrLauncher, self.String()))
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGroup(t, groups.Directory(t), "starts")
			defer g.Close()
			groups.Member(t, g.Supervisor)
			if err := c.spoil(t, g); err != nil {
				t.Fatal(err)
			}
			orphan, err := FindOrphan(g.Parent, g.Dir, time.Now())
			if err != nil || (orphan != nil) != c.orphan {
				t.Errorf("it is an orphan: %v (%v), want %v", orphan != nil, err, c.orphan)
			}
			if orphan != nil {
				orphan.Close()
			}
		})
	}
}

// beingSwept is an orphan that a sweeper has locked.
func beingSwept(t *testing.T, parent *cgroup.Group) *Suspect {
	t.Helper()
	orphan := newGroup(t, parent, "orphan")
	orphan.Close()
	first, err := FindOrphan(parent, orphan.Dir, time.Now())
	if first == nil || err != nil {
		t.Fatalf("no orphan: %v", err)
	}
	return first
}

// Two sweepers may meet at one group: the one that does not get the lock passes.
func TestSweepersDoNotMeet(t *testing.T) {
	parent := groups.Directory(t)
	first := beingSwept(t, parent)
	defer first.Close()
	// its launcher, this test, lives: so the locked group counts as in use
	if second, err := FindOrphan(parent, first.Dir, time.Now()); second != nil || err != nil {
		t.Fatalf("a second sweeper got it, too (%v)", err)
	}
}

// A sweep that somebody has asked for takes over what another sweeper leaves, who ends before it has removed the group.
func TestSweepAwaitsAnotherSweeper(t *testing.T) {
	parent := groups.Directory(t)
	first := beingSwept(t, parent)
	other := exec.Command("sleep", "infinity")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	sweeper, err := group.Identify(other.Process.Pid)
	launcher := sweeper
	launcher.Start++ // a dead one
	if err := errors.Join(err, first.Payload.SetAttr(group.AttrSweeper, sweeper.String()), first.Payload.SetAttr(group.AttrLauncher, launcher.String())); err != nil {
		t.Fatal(err)
	}
	for _, patient := range []bool{false, true} {
		s := newSweeper(SweepFilter{}, nil)
		s.patient = patient
		go func() {
			if patient {
				first.Close() // its lock
				_ = other.Process.Kill()
				_ = other.Wait() // it was killed
			}
		}()
		swept, err := s.result(s.sweep(parent, ""))
		if err != nil || len(swept) > 0 != patient {
			t.Errorf("patient %v: swept %+v (%v)", patient, swept, err)
		}
	}
	if left, err := parent.Children(); err != nil || len(left) > 0 {
		t.Errorf("left: %q (%v)", left, err)
	}
}

// A scope that its manager never removes, since it has missed that nobody is left, goes with the sweep that ended its members.
func TestSweepOfAScopeWhoseEndIsMissed(t *testing.T) {
	t.Parallel()
	parent := groups.Directory(t)
	g := missedScope(t, parent)
	s := newSweeper(SweepFilter{}, nil)
	swept, err := s.result(s.sweep(parent, ""))
	if err != nil || len(swept) != 1 || swept[0].Stuck != "" {
		t.Errorf("swept %+v (%v)", swept, err)
	}
	if left, err := parent.Children(); err != nil || slices.Contains(left, g.Dir) {
		t.Errorf("left: %q (%v)", left, err)
	}
}

// A server that ends while it sweeps does not wait until its manager has missed such a scope, but that goes.
func TestBriefSweepOfAScopeWhoseEndIsMissed(t *testing.T) {
	t.Parallel()
	parent := groups.Directory(t)
	g := missedScope(t, parent)
	server := exec.Command(os.Args[0])
	server.Env = append(os.Environ(), briefEnv+"="+parent.Path())
	if out, err := server.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := escape.AwaitRemoval(filepath.Join(parent.Path(), g.Dir), escape.Patience); err != nil {
		t.Error(err)
	}
}

// missedScope is that of an orphan, which no manager has ever heard of.
func missedScope(t *testing.T, parent *cgroup.Group) *group.ControlGroup {
	t.Helper()
	g, err := group.MakeGroup(parent, &protocol.Config{Name: "missed", Policy: protocol.DefaultPolicy()}, true, func(*group.ControlGroup) {})
	if err != nil {
		t.Fatal(err)
	}
	g.Taken(protocol.SystemdSystem)
	groups.Member(t, g.Payload)
	g.Close()
	return g
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

// What a member does to its own group does not hide it from a sweep.
func TestSweepOfSpoiledGroups(t *testing.T) {
	for name, spoil := range map[string]func(*group.ControlGroup) error{
		"no supervisor/": func(g *group.ControlGroup) error { return g.Top.Remove(protocol.SupervisorName) },
		"disarmed":       func(g *group.ControlGroup) error { return unix.Fremovexattr(g.Payload.FD(), group.AttrArmed) },
	} {
		t.Run(name, func(t *testing.T) {
			parent := groups.Directory(t)
			g := newGroup(t, parent, "spoiled")
			member(t, g, g.Payload)
			if err := spoil(g); err != nil {
				t.Fatal(err)
			}
			g.Close()
			s := newSweeper(SweepFilter{}, nil)
			swept, err := s.result(s.sweep(parent, ""))
			if left, _ := parent.Children(); err != nil || len(swept) != 1 || len(left) > 0 {
				t.Errorf("swept %+v (%v), left %q", swept, err, left)
			}
		})
	}
}

// A sweeper that dies before it has ended an orphan must not make another believe that it
// is cared for.
func TestSweepOutlivesAnotherSweeper(t *testing.T) {
	parent := groups.Directory(t)
	g := newGroup(t, parent, "held") // locked, as by the other sweeper
	member(t, g, g.Payload)
	other := exec.Command("sleep", "100")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	id, err := group.Identify(other.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	gone := group.Identity{PID: id.PID, Start: id.Start + 1, Namespace: id.Namespace}
	if err := errors.Join(g.Payload.SetAttr(group.AttrLauncher, gone.String()), g.Payload.SetAttr(group.AttrSweeper, id.String())); err != nil {
		t.Fatal(err)
	}
	found := make(chan *Suspect)
	go func() {
		orphan, _ := FindOrphan(parent, g.Dir, time.Now().Add(time.Minute)) // nil is what the test looks for
		found <- orphan
	}()
	g.Close() // the other sweeper's lock ends with it
	_ = other.Process.Kill()
	_ = other.Wait()
	orphan := <-found
	if orphan == nil {
		t.Fatal("it was left to a sweeper that is dead")
	}
	if _, err := orphan.End(0, nil); err != nil {
		t.Error(err)
	}
}

// A supervisor that has got SIGKILL and has not died of it yet looks like one that lives, for as long as the machine is busy.
func TestCleanWaitsForTheKill(t *testing.T) {
	parent := groups.Directory(t)
	g := newGroup(t, parent, "killed")
	defer g.Close()
	self, err := group.Identify(os.Getpid())
	self.Start++ // a launcher that is gone
	if err = errors.Join(err, g.Payload.SetAttr(group.AttrLauncher, self.String())); err != nil {
		t.Fatal(err)
	}
	dies := supervisor(t, g)
	opened, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(opened)
	if _, err := unix.InotifyAddWatch(opened, fmt.Sprintf("/proc/self/fd/%d/cgroup.events", g.Top.FD()), unix.IN_OPEN); err != nil {
		t.Fatal(err)
	}
	cleaned := make(chan error)
	go func() { cleaned <- Clean(parent.FD(), g.Dir) }()
	if !linux.AwaitEnd(opened, unix.POLLIN, 10*time.Second) {
		t.Fatal("it does not look whether the group is empty")
	}
	dies()
	if err := <-cleaned; err != nil {
		t.Error(err)
	}
	if left, err := parent.Children(); len(left) > 0 || err != nil {
		t.Errorf("left: %q (%v)", left, err)
	}
}

// supervisor starts a process that is called as one, until it is told to die.
func supervisor(t *testing.T, g *group.ControlGroup) (dies func()) {
	t.Helper()
	cmd := exec.Command("sh")
	cmd.Args = protocol.SuperviseArgs(3, "4", "killed")
	cmd.Dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(cmd.Dir, cmd.Args[1]), []byte("read line"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: g.Supervisor.FD()}
	stdin, err := cmd.StdinPipe()
	if err = errors.Join(err, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // killed
	})
	return func() { _ = stdin.Close() }
}
