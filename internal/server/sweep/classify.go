// SPDX-License-Identifier: Apache-2.0

package sweep

import (
	"errors"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/names"
	"github.com/mcpscope/mcpscope/internal/server/orphan"
	"github.com/mcpscope/mcpscope/internal/server/policy"
)

// condition is the state of a group in the eyes of a sweep.
type condition int

const (
	// foreign: another program has made it, or a gateway has released it.
	foreign condition = iota
	// neverArmed: it has no member, and a launcher has not armed it, or not yet.
	neverArmed
	inUse
	// launcherAlone: it is in use if its launcher runs.
	launcherAlone
	// unclear: it is an orphan if that lasts.
	unclear
	// suspected: it is an orphan, unless the locks of the host show who looks after it.
	suspected
	orphaned
)

// isSuspect reports whether a group is an orphan, or becomes one by staying as it is.
func (c condition) isSuspect() bool { return c == orphaned || c == unclear || c == suspected }

// classify changes nothing.
func classify(
	g *group.ControlGroup, parent *cgroup.Group, seen *orphan.Census, why orphan.Purpose,
) (condition, error) {
	isOurs, err := wasArmed(g)
	if err != nil {
		return foreign, err
	}
	if !isOurs && group.Populated(g.Top()) {
		return foreign, nil
	}
	if !isOurs {
		return neverArmed, nil
	}
	verdict, err := orphan.Judge(g, parent, seen, why)
	if err != nil {
		return foreign, err
	}
	found := conditionOf(verdict)
	if !found.isSuspect() {
		return found, nil
	}
	// A gateway disarms a group before it unlocks it.
	isOurs, err = wasArmed(g)
	if err != nil || !isOurs {
		return foreign, err
	}
	return found, nil
}

func conditionOf(verdict orphan.Verdict) condition {
	switch verdict {
	case orphan.Orphan:
		return orphaned
	case orphan.Unclear:
		return unclear
	case orphan.LauncherAlone:
		return launcherAlone
	case orphan.Suspect:
		return suspected
	}
	return inUse
}

// wasArmed is false for a directory of another program, which can have such a name. An unarmed group with
// members counts if a member carries its tag: the owner can remove the attribute.
func wasArmed(g *group.ControlGroup) (bool, error) {
	if g.IsWithoutPayload() {
		return false, nil
	}
	_, armed, err := g.Payload.Attr(group.AttrArmed)
	if armed || err != nil || !group.Populated(g.Top()) {
		return armed, err
	}
	pids, err := g.Top().Members()
	return slices.ContainsFunc(pids, group.TagOf(g.ID).On), err
}

// openGroup returns nil if the group was removed. A scope may have no payload.
func openGroup(parent *cgroup.Group, dir string) (*group.ControlGroup, error) {
	g, err := group.Open(parent, dir)
	wasNeverArmed := g.IsWithoutPayload() && errors.Is(err, unix.ENOENT)
	if err == nil || wasNeverArmed {
		return g, nil
	}
	g.Close()
	return nil, proc.IgnoreGone(err)
}

// classifyAndTend classifies a group. Unless the sweep is a dry run, it removes one that was never armed, and
// continues a guard that is halted, and a launcher that is alone and stopped: until that has forked a guard
// the group is unclear.
func (s *sweeper) classifyAndTend(
	g *group.ControlGroup, parent *cgroup.Group, seen *orphan.Census,
) (condition, error) {
	if s.filter.DryRun {
		return classify(g, parent, seen, orphan.ToList)
	}
	found, err := classify(g, parent, seen, orphan.ToStop)
	if err != nil {
		return found, err
	}
	switch found {
	case neverArmed:
		return found, removeNeverArmed(g)
	case launcherAlone:
		continueGuard(g)
		if continueLauncher(g.Attributes().Facts().Launcher, g.Membership().Owner()) {
			return unclear, nil
		}
	}
	return found, nil
}

// continueGuard continues a guard that somebody has stopped, or frozen in the leaf of its scope.
func continueGuard(g *group.ControlGroup) {
	if g.Managed {
		thawGuards(g.Top())
	}
	guard := g.Guard().Open()
	if guard < 0 { // it has none
		return
	}
	_ = unix.PidfdSendSignal(guard, unix.SIGCONT, nil, 0) // it has ended
	_ = unix.Close(guard)
}

// tend has a first look at a group, and tends it (classifyAndTend). It reports whether that looks like an
// orphan. The census may be out of date, and an unclear group may become clear: stopSuspects decides.
func (s *sweeper) tend(parent *cgroup.Group, dir string, seen *orphan.Census) (bool, error) {
	g, found, err := s.judge(parent, dir, seen)
	if g != nil {
		g.Close()
	}
	return found.isSuspect(), err
}

// judge opens a group, tends it, and locks it if it is an orphan and has no lock. The caller closes it. The
// group is nil if it was removed.
func (s *sweeper) judge(
	parent *cgroup.Group, dir string, seen *orphan.Census,
) (*group.ControlGroup, condition, error) {
	g, err := openGroup(parent, dir)
	if g == nil {
		return nil, foreign, err
	}
	found, err := s.classifyAndTend(g, parent, seen)
	if err != nil {
		return g, foreign, proc.IgnoreGone(err)
	}
	return g, found, nil
}

// removeNeverArmed removes an old group whose launcher died before it armed it, or the rest of a group that
// was busy. A launcher that is only slow finds its group removed, or the lock taken, and takes the next
// backend.
func removeNeverArmed(g *group.ControlGroup) error {
	age, mode := group.Made(g.Top())
	if age < policy.UnarmedAge {
		return nil
	}
	if g.Payload != nil && g.Payload.TryLock(unix.LOCK_EX) != nil {
		return nil // a launcher is arming it
	}
	g.Manager().Nudge()
	// A cgroup of another program can have such a name (mcp-web-database). Ours are empty with a mode that no
	// other program uses, or scopes with nothing but the leaves.
	children, err := g.Top().Children()
	others := slices.ContainsFunc(children, func(name string) bool {
		return !g.Managed || name != names.GuardsName && name != names.PayloadName
	})
	hasOurMode := mode == group.GroupMode
	if err != nil || others || len(children) == 0 && !hasOurMode && !g.Managed {
		return err
	}
	// A manager has made it, and forgets it without removing it if the first process was dead by then.
	if g.Managed && !hasOurMode && g.Manager().AwaitRemoval() {
		return nil
	}
	err = g.RemoveLeaves()
	if errors.Is(err, unix.EBUSY) { // it has got a member or a directory
		return nil
	}
	return err
}
