// SPDX-License-Identifier: Apache-2.0

package sweep

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/names"
	"github.com/mcpscope/mcpscope/internal/server/policy"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/test/facts"
	"github.com/mcpscope/mcpscope/test/groups"
	"github.com/mcpscope/mcpscope/test/pace"
)

// A dry run signals no process and removes nothing. Each case is one in which the same sweep without that does.
func TestDryRunChangesNothing(t *testing.T) {
	for name, prepare := range map[string]func(*testing.T, *cgroup.Group) (changed func() bool){
		"the guard of a stopped launcher that was asked to end": askedLauncher,
		"a stopped launcher without a guard":                    loneLauncher,
		"a directory that was never armed":                      neverArmedGroup,
		"a scope whose payload was never made":                  scopeWithoutPayload,
		"an orphan":                                             orphanWithMember,
		"an orphan without members":                             orphanWithoutMember,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			parent := groups.Directory(t)
			changed := prepare(t, parent)
			sweepOnce(t, parent, SweepFilter{DryRun: true})
			if changed() {
				t.Error("a dry run has changed it")
			}
			sweeps := func() bool { // a child that another test forks has a copy of the dry run's lock until its execve
				sweepOnce(t, parent, SweepFilter{})
				return changed()
			}
			if !pace.Eventually(time.Minute, sweeps) {
				t.Error("a sweep has not changed it: then this test tests nothing")
			}
		})
	}
}

func sweepOnce(t *testing.T, parent *cgroup.Group, filter SweepFilter) {
	t.Helper()
	s := &sweeper{filter: filter}
	s.sweep(parent, group.OwnIn(parent), func() {})
	for _, err := range s.errs {
		t.Error(err)
	}
}

func askedLauncher(t *testing.T, parent *cgroup.Group) func() bool {
	g := newGroup(t, parent, "asked")
	t.Cleanup(g.Close)
	guard := calledGuard(t, parent, names.GuardPrefix+g.ID)
	cmd := exec.Command("cat")
	stoppedLauncherOf(t, g, cmd, unix.SIGTERM)
	return func() bool { // it is our child, and not waited for
		st, err := proc.ReadStat(guard)
		return err == nil && st.IsZombie()
	}
}

// loneLauncher is flock(1), which has the lock of the group as a launcher has.
func loneLauncher(t *testing.T, parent *cgroup.Group) func() bool {
	g := newGroup(t, parent, "lone")
	g.Close() // it is locked by the launcher
	g, err := group.Open(parent, g.Dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	return stoppedLauncherOf(t, g, exec.Command("flock", g.Payload.Path(), "cat"))
}

// stoppedLauncherOf starts the launcher of a group, stops it, and sends it signals, which are pending until it is continued.
// The command ends with its stdin, and writes what it reads.
func stoppedLauncherOf(t *testing.T, g *group.ControlGroup, cmd *exec.Cmd, pending ...unix.Signal) func() bool {
	t.Helper()
	stdin, stdout := piped(t, cmd)
	pid := cmd.Process.Pid
	t.Cleanup(func() { _ = unix.Kill(pid, unix.SIGCONT) }) // it is our child, and ends with its stdin afterwards
	if _, err := stdin.Write([]byte{'\n'}); err != nil {
		t.Fatal(err)
	}
	if _, err := stdout.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	launcher, err := group.Identify(pid)
	if err != nil {
		t.Fatal(err)
	}
	facts.Set(t, g.Payload.Path(), func(f *protocol.Facts) { f.Launcher = launcher })

	runs := func() bool {
		st, err := proc.ReadStat(pid)
		return err != nil || !st.Stopped()
	}
	_ = unix.Kill(pid, unix.SIGSTOP)
	if !pace.Eventually(time.Minute, func() bool { return !runs() }) {
		t.Fatal("the launcher does not stop")
	}
	for _, sig := range pending {
		_ = unix.Kill(pid, sig)
	}
	return runs
}

func neverArmedGroup(t *testing.T, parent *cgroup.Group) func() bool {
	dir, err := parent.Mkdir(names.DirectoryName("never", "armed234"), group.GroupMode)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dir.Close() }) // a directory
	makeOld(t, dir)
	return isRemoved(dir)
}

func scopeWithoutPayload(t *testing.T, parent *cgroup.Group) func() bool {
	dir, err := parent.Mkdir(names.DirectoryName("scope", "empty234")+names.ScopeSuffix, group.GroupMode)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dir.Close() }) // a directory
	makeOld(t, dir)
	return isRemoved(dir)
}

func orphanWithMember(t *testing.T, parent *cgroup.Group) func() bool {
	g := newGroup(t, parent, "orphan")
	member(t, g, g.Payload)
	defer unlock(g)
	return isRemoved(g.Top())
}

func orphanWithoutMember(t *testing.T, parent *cgroup.Group) func() bool {
	g := newGroup(t, parent, "orphan")
	defer unlock(g)
	return isRemoved(g.Top())
}

// makeOld has a directory older than one that a launcher may still arm.
func makeOld(t *testing.T, dir *cgroup.Group) {
	t.Helper()
	made := time.Now().Add(-2 * policy.UnarmedAge)
	if err := os.Chtimes(dir.Path(), made, made); err != nil {
		t.Fatal(err)
	}
}

func isRemoved(dir *cgroup.Group) func() bool {
	return func() bool {
		_, err := os.Stat(dir.Path())
		return err != nil
	}
}
