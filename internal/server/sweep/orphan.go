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
	"github.com/mcpscope/mcpscope/internal/server/page"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// findOrphan opens the group of dir, and locks it if possible; nil if it is no orphan. It removes an old
// group that was never armed.
func findOrphan(
	parent *cgroup.Group, dir string, doubt time.Duration, seen *census,
) (*group.ControlGroup, error) {
	g, err := group.Open(parent, dir)
	orphan := false
	switch {
	case err == nil:
		orphan, err = isOrphan(g, parent, doubt, seen)
	case g.Top != nil && errors.Is(err, unix.ENOENT):
		err = removeNewborn(g)
	}
	if !orphan || err != nil {
		g.Close()
		return nil, proc.IgnoreGone(err)
	}
	return g, nil
}

// isOrphan waits while a group is unclear. One that stays unclear for the time of doubt is an orphan.
func isOrphan(g *group.ControlGroup, parent *cgroup.Group, doubt time.Duration, seen *census) (bool, error) {
	if ours, err := isServers(g); !ours || err != nil {
		return false, err
	}
	orphaned, unclear, err := look(g, parent, seen)
	for until := time.Now().Add(doubt); unclear && err == nil && time.Now().Before(until); {
		time.Sleep(pause)
		orphaned, unclear, err = look(g, parent, seen)
	}
	if !orphaned && !unclear || err != nil {
		return false, err
	}
	return isServers(g) // a gateway may have released it
}

// isServers reports whether the group was armed. A directory of another program can have such a name. An
// unarmed group with members counts if a member carries its tag: the owner can remove the attribute.
func isServers(g *group.ControlGroup) (bool, error) {
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
	if time.Since(time.Unix(st.Mtim.Unix())) < protocol.NewbornAge {
		return nil
	}
	if g.Payload != nil && g.Payload.TryLock(unix.LOCK_EX) != nil {
		return nil // a launcher is arming it
	}
	g.Nudge()
	// A cgroup of another program can have such a name (mcp-web-database). Ours are empty with a mode that no
	// other program uses, or scopes with nothing but the leaves.
	names, err := g.Top.Children()
	others := slices.ContainsFunc(names, func(name string) bool {
		return !g.Managed || name != protocol.GuardsName && name != protocol.PayloadName
	})
	hasOurMode := st.Mode&0o777 == group.GroupMode
	if err != nil || others || len(names) == 0 && !hasOurMode && !g.Managed {
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

// look: an armed group is an orphan if its lock is free. A launcher locks before it arms, so this attempt
// meets no start. When launcher and guard are dead a member can take the lock. So a lock does not count
// without either of them, or with a guard that cannot act. A group is unclear that has members, no guard, and
// a launcher in another pid namespace. Attributes, which the server can write, can delay a stop and not
// prevent it.
//
// The guard comes first: the locks of the whole host are dear.
func look(g *group.ControlGroup, parent *cgroup.Group, seen *census) (orphaned, unclear bool, err error) {
	err = g.Payload.TryLock(unix.LOCK_EX)
	if err == nil {
		return true, false, nil
	}
	if !errors.Is(err, unix.EWOULDBLOCK) {
		return false, false, err
	}
	guard, hidden := seen.guardOf(g)
	if guard > 0 && !halted(g, parent, guard) {
		return false, false, nil
	}
	lives, known := launcher(g, seen)
	if lives { // if it runs it forks another guard, or continues the one that there is
		unclear = continueLauncher(g.Facts().Launcher, g.Owner(), anyStop)
	}
	if unclear {
		return false, true, nil
	}
	if lives || guard > 0 && !known || guard == 0 && hidden {
		return false, false, nil
	}
	return known, !known && group.Populated(g.Top), nil // without members it starts, or has just ended
}

// halted reports whether a guard is stopped, or frozen in its scope. A freeze further up belongs to a
// container that is paused.
func halted(g *group.ControlGroup, parent *cgroup.Group, guard int) bool {
	st, _ := proc.ReadStat(guard) // zero, if it has exited
	if st.Stopped() {
		return true
	}
	frozen := group.Frozen(g.Top)
	if leaf := guardsIn(g); leaf != nil {
		frozen = frozen || group.Frozen(leaf)
		_ = leaf.Close() // a directory
	}
	return g.Managed && frozen && !group.Frozen(parent)
}

// guardsIn opens the leaf of guards in a scope. It is nil for any other group.
func guardsIn(g *group.ControlGroup) *cgroup.Group {
	if !g.Managed {
		return nil
	}
	leaf, _ := g.Top.Child(protocol.GuardsName) // nil, if it was removed
	return leaf
}

// launcher does not rely on attributes alone: a launcher that lives has locked the payload, and a later
// watcher of a gateway its cgroup.events. The guard of a gateway has its name. None of them is a member.
// known is false for a launcher in another pid namespace, and for a guard that is named there and is no
// gateway's.
func launcher(g *group.ControlGroup, seen *census) (lives, known bool) {
	of := g.Facts()
	known = of.Launcher.PID == 0 || of.Launcher.Namespace == group.PIDNamespace()
	named := of.Guard.PID != 0 && group.Alive(of.Guard)
	if named && gatewayGuardLives(g, of.Guard) {
		return true, known // before all locks of the host are read
	}
	locks, err := seen.locks()
	if err != nil {
		return true, known
	}
	for _, file := range []string{".", "cgroup.events"} {
		var st unix.Stat_t
		if unix.Fstatat(g.Payload.FD(), file, &st, 0) != nil {
			continue
		}
		for _, pid := range locks.On(&st) {
			st, _ := proc.ReadStat(pid) // zero, if it is hidden
			counts := !st.Stopped() && !proc.Exited(pid)
			if file == "." {
				counts = known && pid == of.Launcher.PID && group.Alive(of.Launcher)
			}
			if counts && !group.TagOf(g.ID).On(pid) {
				return true, known
			}
		}
	}
	return false, known && !named
}

// gatewayGuardLives reports whether a process that may live is the guard of a gateway: as long as that lives
// its next watcher goes on with the server. One of another pid namespace is looked for beside the group.
func gatewayGuardLives(g *group.ControlGroup, guard protocol.Identity) bool {
	if guard.Namespace == group.PIDNamespace() {
		return isGatewayGuard(g, guard.PID)
	}
	b, _ := g.Top.Read("../" + protocol.GuardsName + "/cgroup.procs") // none, without that leaf
	pids, _ := proc.ParsePIDs(b)                                      // as far as they can be read
	return slices.ContainsFunc(pids, func(pid int) bool {
		st, err := proc.ReadStatus(pid)
		return err == nil && st.Inside == guard.PID && isGatewayGuard(g, pid)
	})
}

// isGatewayGuard reports whether a process is called like the guard of a gateway, and is no member. With
// hidepid=2 its user does not see the name.
func isGatewayGuard(g *group.ControlGroup, pid int) bool {
	st, err := proc.ReadStat(pid)
	called := err == nil && st.Comm == page.GatewayGuard && !st.Stopped()
	hidden := err != nil && unix.Kill(pid, 0) == nil
	return (called || hidden) && !group.TagOf(g.ID).On(pid)
}

// End stops an orphan, calls dead, and removes its group. It calls a container engine as the calling user.
//
// The kernel delays the notification of an empty group for 10 ms, and much longer on a busy machine. A
// removal drops it, and systemd keeps the scope. So systemd gets the time to remove the scope itself.
func End(g *group.ControlGroup, grace time.Duration, dead func()) (Swept, error) {
	of := g.Facts()
	engine := g.Engine()
	empty := !group.Populated(g.Top)
	s := Swept{ID: g.ID, Name: of.Name, Dir: g.Dir}
	command := []string{engine, "run"}
	if container.EndsFirst(engine) {
		_ = container.End(g.ID, command, os.Environ(), grace) // repeated below
	}
	left, err := g.EndWithTagged(freeze.Stop{Ask: unix.SIGTERM, Grace: grace})
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
		who := protocol.Subject{ID: g.ID, Name: of.Name, Client: of.Client, Origin: of.Origin}
		who.Log(protocol.EventSwept, priority, text, protocol.Field("stuck", s.Stuck))
	}
	if !ended {
		return s, err
	}
	if guard := g.OpenGuard(); guard >= 0 { // it was halted, and exits when it runs
		_ = g.Top.Thaw() // it was removed
		if leaf := guardsIn(g); leaf != nil {
			_ = leaf.ThawAlone() // as above
			_ = leaf.Close()     // a directory
		}
		_ = unix.PidfdSendSignal(guard, unix.SIGCONT, nil, 0) // as above
		linux.AwaitEnd(guard, unix.POLLIN, protocol.ReactWithin)
		_ = unix.Close(guard)
	}
	dead()
	if g.Nudge(); g.Managed && g.AwaitRemoval() {
		return s, nil
	}
	return s, g.RemoveWhole()
}
