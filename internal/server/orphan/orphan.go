// SPDX-License-Identifier: Apache-2.0

// Package orphan decides whether a group has lost its launcher and guard. Lists and sweeps share that rule. A
// list asks for armed groups alone, a sweep also for those with a tagged member. The package changes nothing,
// and signals no process.
package orphan

import (
	"errors"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/names"
	"github.com/mcpscope/mcpscope/internal/server/page"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// Verdict is about a group that is armed or has a tagged member.
type Verdict int

const (
	// InUse: a guard or launcher looks after it.
	InUse Verdict = iota
	// Orphan: launcher and guard are dead, or halted.
	Orphan
	// Unclear: it has members, no guard, and a launcher in another pid namespace. It may be starting. One
	// that stays unclear is an orphan.
	Unclear
	// LauncherAlone: no guard acts, and the launcher lives. One that runs forks another guard in the place of
	// a dead one. Somebody may have stopped either.
	LauncherAlone
	// Suspect: it is an orphan, unless the locks of the host show a keeper. The census has no locks.
	Suspect
)

// Purpose is the reason to judge, and the lock that it takes.
type Purpose int

const (
	ToStop Purpose = unix.LOCK_EX
	ToList Purpose = unix.LOCK_SH // others may list at the same time
)

// Judge tries to lock the payload. If it can, no process that looks after the server lives: the group is an
// orphan, and the lock is held until the group is closed. A launcher locks before it arms, so the attempt
// meets no start. If it can't, the holder may be a member, which can take the lock when launcher and guard
// are dead:
//
//	guard               keeper       verdict
//	acts                             InUse
//	is halted, or none  lives        LauncherAlone
//	is invisible        not found    InUse
//	is not found        is invisible InUse
//	is halted, or none  is dead      Orphan
//	is halted           may live     InUse
//	none                may live     Unclear with members, otherwise InUse: it starts, or has just ended
//
// Attributes, which the server can write, can delay a stop and not prevent it.
func Judge(g *group.ControlGroup, parent *cgroup.Group, seen *Census, why Purpose) (Verdict, error) {
	err := g.Payload.TryLock(int(why))
	if err == nil {
		return Orphan, nil
	}
	if !errors.Is(err, unix.EWOULDBLOCK) {
		return InUse, err
	}
	// The guard comes first: the locks of the whole host are dear.
	guard, isHidden := seen.GuardOf(g)
	hasGuard := guard > 0
	if hasGuard && !isHalted(g, parent, guard) {
		return InUse, nil
	}
	facts := g.Attributes().Facts()
	guardMayLive := facts.Guard.PID != 0 && group.Alive(facts.Guard)
	if guardMayLive && gatewayGuardLives(g, facts.Guard) { // before all locks of the host are read
		return LauncherAlone, nil
	}
	if seen.locks == nil {
		return Suspect, nil
	}
	keeper := findKeeper(g, facts, guardMayLive, seen)
	switch {
	case keeper.lives:
		return LauncherAlone, nil
	case !hasGuard && (isHidden || keeper.isUnseen):
		return InUse, nil
	case keeper.isSure:
		return Orphan, nil
	case hasGuard:
		return InUse, nil
	case group.Populated(g.Top()):
		return Unclear, nil
	}
	return InUse, nil
}

// isHalted reports whether a guard is stopped, or frozen with its server or scope. A freeze further up
// belongs to a container that is paused.
func isHalted(g *group.ControlGroup, parent *cgroup.Group, guard int) bool {
	st, _ := proc.ReadStat(guard) // zero, if it has exited
	if st.Stopped() {
		return true
	}
	frozen := group.Frozen(g.Top())
	if leaf := guardsIn(g); leaf != nil {
		frozen = frozen || group.Frozen(leaf)
		_ = leaf.Close() // a directory
	}
	isInside := g.Managed || isMember(g, guard)
	return isInside && frozen && !group.Frozen(parent)
}

// guardsIn opens the leaf of guards in a scope. It is nil for any other group.
func guardsIn(g *group.ControlGroup) *cgroup.Group {
	if !g.Managed {
		return nil
	}
	leaf, _ := g.Top().Child(names.GuardsName) // nil, if it was removed
	return leaf
}

// keeper is a process that looks after a server whose guard is dead or halted: a launcher, or a watcher and
// the guard of a gateway.
type keeper struct {
	lives bool
	// isSure: if it was not found, it does not live. A launcher in another pid namespace, and a guard that is
	// named there and is no gateway's, may.
	isSure bool
	// isUnseen: the kernel shows no holder of the lock. It is in a pid namespace that we do not see, where a
	// gateway and its servers may be. A member whose lock that is, and which we may stop, is shown.
	isUnseen bool
}

// findKeeper does not rely on attributes alone: a launcher that lives has locked the payload, and a later
// watcher of a gateway its cgroup.events. None of them is a member.
func findKeeper(g *group.ControlGroup, facts protocol.Facts, guardMayLive bool, seen *Census) keeper {
	locks, err := seen.locks()
	if err != nil {
		return keeper{lives: true}
	}
	isHere := facts.Launcher.PID == 0 || facts.Launcher.Namespace == group.PIDNamespace()
	var payload unix.Stat_t
	if err := unix.Fstat(g.Payload.FD(), &payload); err != nil {
		return keeper{lives: true}
	}
	holders := locks.On(&payload)
	hasLauncher := isHere && slices.Contains(holders, facts.Launcher.PID) && isKeeper(g, facts.Launcher)
	return keeper{
		lives:    hasLauncher || watcherHasLock(g, locks),
		isSure:   isHere && !guardMayLive,
		isUnseen: len(holders) == 0,
	}
}

func isKeeper(g *group.ControlGroup, launcher protocol.Identity) bool {
	return group.Alive(launcher) && !isMember(g, launcher.PID)
}

func watcherHasLock(g *group.ControlGroup, locks proc.Locks) bool {
	var events unix.Stat_t
	if unix.Fstatat(g.Payload.FD(), "cgroup.events", &events, 0) != nil {
		return false
	}
	return slices.ContainsFunc(locks.On(&events), func(pid int) bool {
		st, _ := proc.ReadStat(pid) // zero, if it is hidden
		return !st.Stopped() && !proc.Exited(pid) && !isMember(g, pid)
	})
}

// isMember reports whether a process has the tag of the group or is in it: a member may have removed its tag.
func isMember(g *group.ControlGroup, pid int) bool {
	if group.TagOf(g.ID).On(pid) {
		return true
	}
	where, err := proc.ReadCgroup(pid)
	return err == nil && strings.Contains(where+"/", "/"+g.Dir+"/") // its id is unique
}

// gatewayGuardLives reports whether a process that may live is the guard of a gateway: as long as that lives
// its next watcher goes on with the server. One of another pid namespace is looked for beside the group.
func gatewayGuardLives(g *group.ControlGroup, guard protocol.Identity) bool {
	if guard.Namespace == group.PIDNamespace() {
		return isGatewayGuard(g, guard.PID)
	}
	beside := "../"
	if g.InSession { // the guard of its gateway is outside
		beside += "../"
	}
	b, _ := g.Top().Read(beside + names.GuardsName + "/cgroup.procs") // none, without that leaf
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
	return (called || hidden) && !isMember(g, pid)
}
