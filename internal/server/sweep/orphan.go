// SPDX-License-Identifier: Apache-2.0

package sweep

import (
	"errors"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/kernel/linux"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/server/container"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/journal"
	"github.com/mcpscope/mcpscope/internal/server/names"
	"github.com/mcpscope/mcpscope/internal/server/orphan"
	"github.com/mcpscope/mcpscope/internal/server/policy"
)

// findOrphan opens the group of dir, and locks it if possible; nil if it is no orphan. It removes an old
// group that was never armed.
func findOrphan(
	parent *cgroup.Group, dir string, doubt time.Duration, seen *orphan.Census,
) (*group.ControlGroup, error) {
	g, err := group.Open(parent, dir)
	found := false
	switch {
	case err == nil:
		found, err = isOrphan(g, parent, doubt, seen)
	case g.Top != nil && errors.Is(err, unix.ENOENT):
		err = removeNewborn(g)
	}
	if !found || err != nil {
		g.Close()
		return nil, proc.IgnoreGone(err)
	}
	return g, nil
}

// isOrphan waits while a group is unclear. One that stays unclear for the time of doubt is an orphan.
func isOrphan(
	g *group.ControlGroup, parent *cgroup.Group, doubt time.Duration, seen *orphan.Census,
) (bool, error) {
	if ours, err := wasArmedOrRemove(g); !ours || err != nil {
		return false, err
	}
	verdict, err := judgeAndContinue(g, parent, seen)
	for until := time.Now().Add(doubt); verdict == orphan.Unclear && err == nil && time.Now().Before(until); {
		time.Sleep(pause)
		verdict, err = judgeAndContinue(g, parent, seen)
	}
	if err != nil || verdict == orphan.InUse {
		return false, err
	}
	return wasArmedOrRemove(g) // a gateway may have released it
}

// judgeAndContinue judges a group, and continues a launcher without a guard that a member has stopped. The
// verdict is unclear until that has forked another guard.
func judgeAndContinue(
	g *group.ControlGroup, parent *cgroup.Group, seen *orphan.Census,
) (orphan.Verdict, error) {
	verdict, err := orphan.Judge(g, parent, seen, unix.LOCK_EX)
	if verdict != orphan.LauncherAlone {
		return verdict, err
	}
	if continueLauncher(g.Facts().Launcher, g.Owner(), anyStop) {
		return orphan.Unclear, nil
	}
	return orphan.InUse, nil
}

// wasArmedOrRemove reports whether the group was armed, and removes an old one that was not and has no
// members. A directory of another program can have such a name. An unarmed group with members counts if a
// member carries its tag: the owner can remove the attribute.
func wasArmedOrRemove(g *group.ControlGroup) (bool, error) {
	_, armed, err := g.Payload.Attr(group.AttrArmed)
	if armed || err != nil {
		return armed, err
	}
	if !group.Populated(g.Top) {
		return false, removeNewborn(g)
	}
	pids, err := g.Top.Members()
	return slices.ContainsFunc(pids, group.TagOf(g.ID).On), err
}

// removeNewborn removes a group whose launcher died before it armed it, or the rest of a group that was
// busy. A launcher that is only slow finds its group removed, or the lock taken, and takes the next backend.
func removeNewborn(g *group.ControlGroup) error {
	var st unix.Stat_t
	_ = unix.Fstat(g.Top.FD(), &st) // it can't fail: the directory is open
	if time.Since(time.Unix(st.Mtim.Unix())) < policy.NewbornAge {
		return nil
	}
	if g.Payload != nil && g.Payload.TryLock(unix.LOCK_EX) != nil {
		return nil // a launcher is arming it
	}
	g.Nudge()
	// A cgroup of another program can have such a name (mcp-web-database). Ours are empty with a mode that no
	// other program uses, or scopes with nothing but the leaves.
	children, err := g.Top.Children()
	others := slices.ContainsFunc(children, func(name string) bool {
		return !g.Managed || name != names.GuardsName && name != names.PayloadName
	})
	hasOurMode := st.Mode&0o777 == group.GroupMode
	if err != nil || others || len(children) == 0 && !hasOurMode && !g.Managed {
		return err
	}
	// A manager has made it, and forgets it without removing it if the first process was dead by then.
	if g.Managed && !hasOurMode && g.AwaitRemoval() {
		return nil
	}
	err = g.RemoveLeaves()
	if errors.Is(err, unix.EBUSY) { // it has got a member or a directory
		return nil
	}
	return err
}

// End stops an orphan, calls dead, and removes its group. It calls a container engine as the calling user.
//
// The kernel delays the notification of an empty group for 10 ms, and much longer on a busy machine. A
// removal drops it, and systemd keeps the scope. So systemd gets the time to remove the scope itself.
func End(g *group.ControlGroup, grace time.Duration, dead func()) (Swept, error) {
	of := g.Facts()
	engine := g.Engine()
	empty := !group.Populated(g.Top)
	known := knownOf(g, of)
	s := Swept{ID: g.ID, Name: of.Name, Dir: g.Dir}
	command := []string{engine, "run"}
	if container.EndsFirst(engine) {
		_ = container.End(g.ID, command, os.Environ(), grace) // repeated below
	}
	left, err := g.EndWithTagged(freeze.Stop{Request: unix.SIGTERM, Grace: grace})
	s.Stuck = group.DescribeStuck(left)
	ended := err == nil && s.Stuck == ""
	if ended { // a server may have named an engine that fails: the group is removed all the same
		if failed := container.End(g.ID, command, os.Environ(), grace); failed != nil {
			s.Stuck = failed.Error()
		}
	}
	if !empty && err == nil {
		text := "swept: its launcher and guard were gone"
		priority := systemd.Notice
		if s.Stuck != "" {
			text = "swept, but for " + s.Stuck
			priority = systemd.Warning
		}
		fields := append(known, journal.Field("stuck", s.Stuck))
		subjectOf(g, of).Log(journal.Swept, priority, text, fields...)
	}
	if !ended {
		return s, err
	}
	if guard := g.OpenGuard(); guard >= 0 { // it was halted, and exits when it runs
		_ = g.Top.Thaw() // it was removed
		if leaf := orphan.GuardsIn(g); leaf != nil {
			_ = leaf.ThawAlone() // it was removed
			_ = leaf.Close()     // a directory
		}
		_ = unix.PidfdSendSignal(guard, unix.SIGCONT, nil, 0) // it has ended
		linux.AwaitWithin(guard, unix.POLLIN, policy.ReactWithin)
		_ = unix.Close(guard)
	}
	dead()
	if g.Nudge(); g.Managed && g.AwaitRemoval() {
		return s, nil
	}
	return s, g.RemoveWhole()
}
