// SPDX-License-Identifier: Apache-2.0

//go:build linux

package sweep

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/linux"
	"github.com/mcpscope/mcpscope/internal/proc"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/lifecycle"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/systemd"
)

// A verdict is what the kernel says of a group that somebody else has made.
type verdict int

const (
	inUse    verdict = iota // or not a server's, or no group any more
	orphaned                // nobody is left who would end it
	unclear                 // one of both: settle waits for what tells
)

// Suspect is a group that somebody else has made, and that may be an orphan.
type Suspect struct{ *group.ControlGroup }

// FindOrphan returns the group of dir if it is an orphan, locked if that is possible, and otherwise
// nil. It waits until the deadline for what is unclear. A group that was never armed is removed here
// once it is old.
func FindOrphan(parent *cgroup.Group, dir string, until time.Time) (*Suspect, error) {
	g, v, err := judge(parent, dir)
	if v == unclear && err == nil {
		v, err = g.settle(until)
	}
	if v == orphaned && err == nil {
		return g, nil
	}
	g.Close()
	return nil, group.IgnoreGone(err)
}

const sweeperPause = 100 * time.Millisecond

// awaitSweeper waits, at most until the deadline, for another sweeper that has an empty group, and tells whether it has ended and
// left that. It looks for the group again and again, as AwaitManager does.
func awaitSweeper(parent *cgroup.Group, dir string, until time.Time) (left bool) {
	for pause := time.Millisecond; time.Until(until) > 0 && !left; pause = min(2*pause, sweeperPause) {
		g, v, err := judge(parent, dir)
		if v != unclear || err != nil {
			g.Close()
			return v == orphaned // it has given the lock back
		}
		wait := min(pause, time.Until(until))
		var known bool // otherwise it is in another pid namespace, or has not said who it is
		left = g.Said(group.AttrSweeper, func(sweeper group.Identity) bool {
			known = sweeper.Namespace == linux.PIDNamespace()
			return known && sweeper.AwaitEnd(wait)
		})
		g.Close()
		if !known {
			time.Sleep(wait)
		}
	}
	return left
}

// judge opens the group and applies the rule, without waiting.
func judge(parent *cgroup.Group, dir string) (*Suspect, verdict, error) {
	g := &Suspect{ControlGroup: &group.ControlGroup{ID: protocol.IDOf(dir), Dir: dir, Parent: parent, Managed: strings.HasSuffix(dir, protocol.ScopeSuffix)}}
	v, err := g.look()
	return g, v, err
}

func (g *Suspect) look() (verdict, error) {
	var err error
	if g.Top, err = g.Parent.Child(g.Dir); err != nil {
		return inUse, err
	}
	g.Payload, err = g.Top.Child(protocol.PayloadName)
	if errors.Is(err, unix.ENOENT) {
		return inUse, g.removeNewborn()
	}
	if err != nil {
		return inUse, err
	}
	if ours, err := g.isServers(); !ours || err != nil {
		return inUse, err
	}
	g.Supervisor, err = g.Top.Child(protocol.SupervisorName)
	if err != nil && !errors.Is(err, unix.ENOENT) { // a member may have removed it when it was empty
		return inUse, err
	}
	return g.orphan()
}

// isServers tells whether the group was armed. A directory of another program may have a name like
// ours, so one that is not armed and has members is ours only if a member carries its tag: nothing is
// started in a group before it is armed, but the owner can remove the attribute.
func (g *Suspect) isServers() (bool, error) {
	_, armed, err := g.Payload.Attr(group.AttrArmed)
	if armed || err != nil {
		return armed, err
	}
	if !group.Populated(g.Top) {
		return false, g.removeNewborn()
	}
	pids, err := g.Top.Members()
	return slices.ContainsFunc(pids, group.TagOf(g.ID).On), err
}

// removeNewborn removes a group whose launcher died before it armed it, or what is left of one whose other
// leaf was busy when it was removed. A launcher that is only slow finds it gone, or its lock taken, and makes
// another.
func (g *Suspect) removeNewborn() error {
	var st unix.Stat_t
	if err := unix.Fstat(g.Top.FD(), &st); err != nil {
		return fmt.Errorf("look at %s: %w", g.Top, err)
	}
	if time.Since(time.Unix(st.Mtim.Unix())) < protocol.NewbornAge {
		return nil
	}
	if g.Payload != nil && g.Payload.TryLock(unix.LOCK_EX) != nil {
		return nil // it is being armed just now
	}
	if g.Managed {
		g.nudgeManager() // it may have forgotten the scope, so what is empty is removed all the same
	}
	if ours, err := g.holdsNothingElse(st.Mode); !ours || err != nil {
		return err
	}
	return group.IgnoreBusy(g.RemoveLeaves())
}

// holdsNothingElse: cgroups of other programs may have names like ours (mcp-web-database). Ours have
// no directory in them but the two leaves. A launcher that was killed before it had made those leaves
// nothing in it, but the mode that no other program gives a cgroup.
func (g *Suspect) holdsNothingElse(mode uint32) (bool, error) {
	names, err := g.Top.Children()
	others := slices.ContainsFunc(names, func(name string) bool { return name != protocol.SupervisorName && name != protocol.PayloadName })
	return err == nil && !others && (len(names) > 0 || mode&0o777 == group.GroupMode), err
}

// nudgeManager makes systemd look at an empty scope again. When the first process in one ends at
// once, systemd (252) misses that and has the scope run for ever; it looks whether anybody is
// in it whenever something changes in cgroup.events, which tells of freezing as well.
func (g *Suspect) nudgeManager() {
	if !group.Populated(g.Top) && g.Top.SetFrozen(true) == nil {
		_ = g.Top.SetFrozen(false) // gone is as good
	}
}

// orphan applies the rule to an armed group: it is an orphan if its lock is free, or if no supervisor
// lives although somebody holds the lock. A launcher locks before it arms, so no start can meet this
// attempt at the lock. Attributes are what the server itself can write: they may shorten a wait, and
// prevent no end.
func (g *Suspect) orphan() (verdict, error) {
	err := g.Payload.TryLock(unix.LOCK_EX)
	if err == nil {
		if ours, err := g.isServers(); !ours || err != nil { // a gateway has given it up meanwhile
			return inUse, err
		}
		if self, err := group.Identify(unix.Getpid()); err == nil {
			_ = g.Payload.SetAttr(group.AttrSweeper, self.String()) // without it another sweeper waits longer
		}
		return orphaned, nil
	}
	if !errors.Is(err, unix.EWOULDBLOCK) {
		return inUse, err
	}
	supervisors, hidden, err := g.supervisors()
	switch {
	case err != nil || hidden:
		return inUse, err // it lives where we can't see it
	case len(supervisors) > 0 && (!g.halted(supervisors) || g.launcherLives()):
		return inUse, nil
	case len(supervisors) == 0 && !group.Populated(g.Top) && g.Said(group.AttrLauncher, group.Identity.Alive):
		return inUse, nil // it is being started, or has just ended
	case len(supervisors) == 0 && g.starting():
		return inUse, nil
	case len(supervisors) == 0 && !g.Said(group.AttrLauncher, group.Identity.Alive) && !g.Said(group.AttrSweeper, group.Identity.Alive):
		return orphaned, nil
	}
	return unclear, nil
}

// supervisors are the processes in the leaf that can be one. A member that has put itself there
// carries the tag; one that has dropped the tag is still not called as a supervisor is. hidden
// tells that there are processes of which we can't see which.
func (g *Suspect) supervisors() (pids []int, hidden bool, err error) {
	if g.Supervisor == nil || !group.Populated(g.Supervisor) {
		return nil, false, nil
	}
	all, err := g.Supervisor.Members()
	if err != nil || len(all) == 0 {
		return nil, err == nil && group.Populated(g.Supervisor), err // in a pid namespace beside ours, unless it has just ended
	}
	return slices.DeleteFunc(all, func(pid int) bool { return group.TagOf(g.ID).On(pid) || !group.Supervises(pid) }), false, nil
}

// starting tells whether a supervisor may be there that has not executed anything yet, which takes long on a busy
// machine, or while the server is being executed: it is in its leaf, or where a manager has put it, carries no tag, and the
// launcher lives. A member that looks so could as well be called as a supervisor is.
func (g *Suspect) starting() bool {
	var all []int
	for _, file := range []string{"cgroup.procs", protocol.SupervisorName + "/cgroup.procs"} {
		text, err := g.Top.Read(file)
		pids, bad := proc.ParsePIDs(text)
		if err != nil && !errors.Is(err, unix.ENOENT) || bad != nil {
			return false
		}
		all = append(all, pids...)
	}
	return len(all) > 0 && g.launcherLives() && !slices.ContainsFunc(all, group.TagOf(g.ID).On)
}

// halted tells whether no supervisor can act, for a stop or a freeze that was meant for it. A freeze
// further up is none of our business: somebody has paused a container.
func (g *Suspect) halted(supervisors []int) bool {
	if group.Frozen(g.Supervisor) {
		return !group.Frozen(g.Parent)
	}
	return group.AllStopped(supervisors)
}

// launcherLives goes by more than what an attribute says: the launcher holds the lock, and is no
// member. In another pid namespace it can't be looked at, and may live.
func (g *Suspect) launcherLives() bool {
	return g.Said(group.AttrLauncher, func(id group.Identity) bool {
		if id.Namespace != linux.PIDNamespace() {
			return true
		}
		return id.Alive() && !group.TagOf(g.ID).On(id.PID) && g.lockedBy(id.PID)
	})
}

// Said asks about the process that an attribute names; false if it names none.
func (g *Suspect) Said(attr string, about func(group.Identity) bool) bool {
	text, _, _ := g.Payload.Attr(attr) // none, if it can't be read
	id, ok := group.ParseIdentity(text)
	return ok && about(id)
}

// lockedBy tells whether a process has a descriptor that holds the lock of the group. Of one that we
// may not look at it is believed.
func (g *Suspect) lockedBy(pid int) bool {
	var st unix.Stat_t
	if unix.Fstat(g.Payload.FD(), &st) != nil {
		return true
	}
	holds, err := proc.HoldsFlock(pid, st.Dev, st.Ino)
	return holds || err != nil
}

// settle waits until something tells whether the group is an orphan, at most until the deadline. A
// group that has members, and still no supervisor then, is one, whoever has its lock.
func (g *Suspect) settle(until time.Time) (verdict, error) {
	if limit := time.Now().Add(protocol.DoubtMost); until.After(limit) {
		until = limit
	}
	supervisors, _, err := g.supervisors()
	if err != nil {
		return inUse, err
	}
	if len(supervisors) > 0 {
		return g.wake(supervisors, until)
	}
	changed := func(cgroup.State) bool {
		v, err := g.orphan()
		return err != nil || v != unclear || !group.Populated(g.Top)
	}
	if _, _, err := g.Top.Await(until, -1, changed); err != nil {
		return inUse, err
	}
	v, err := g.orphan()
	if v == unclear && group.Populated(g.Top) {
		if ours, err := g.isServers(); !ours || err != nil { // as above
			return inUse, err
		}
		v = orphaned
	}
	return v, err
}

// wake continues a supervisor that was stopped or frozen and has no launcher to do it. It goes on
// with what it has to do then. One that a member stops faster than it can act is killed, which makes
// its group an orphan.
func (g *Suspect) wake(supervisors []int, until time.Time) (verdict, error) {
	_ = g.Top.SetFrozen(false) // by systemctl freeze, or by a member
	_ = g.Supervisor.Thaw()
	if _, err := freeze.Signal(g.Supervisor, unix.SIGCONT); err != nil {
		return inUse, err
	}
	if _, gone, err := g.Supervisor.Await(until, -1, group.IsEmpty); gone || err != nil {
		return inUse, err
	}
	if !g.halted(supervisors) {
		return inUse, nil
	}
	_, err := freeze.Kill(g.Supervisor, protocol.SupervisorGoneWithin)
	return orphaned, err
}

// End ends an orphan and removes its group. g is closed.
//
// An empty scope may be one that systemd has forgotten, or one that has just ended as it
// should, or one whose end systemd has missed. The kernel holds word of a change back for
// 10 ms, on a busy machine for much longer, and a removal drops it: then systemd has the scope
// run for ever. So it is told, and gets the time to hear; what it has heard it acts on. Who is in a hurry
// leaves the directory to a copy that has that time.
func (g *Suspect) End(grace time.Duration, hurry *Hurry) (Swept, error) {
	defer g.Close()
	s := Swept{ID: g.ID, Dir: g.Dir}
	about := g.Subject()
	s.Name = about.Name
	empty := !group.Populated(g.Top)
	forgotten := g.LeftToManager() && (empty || g.OnlyAsked())
	engine := g.Engine()
	if lifecycle.EndsFirst(engine) {
		_ = g.endContainers(engine, grace) // it is asked once more
	}
	res, err := g.EndWithTagged(freeze.Stop{Ask: unix.SIGTERM, Grace: grace, Hurry: hurry.ofGraces()})
	s.Stuck = group.DescribeStuck(res.Stuck)
	ended := err == nil && s.Stuck == ""
	if ended { // what is left of containers is said once, and the group goes: a server may have named an engine that can't be asked
		s.Stuck = g.endContainers(engine, 0)
	}
	if !empty && err == nil {
		s.tell(about)
	}
	if !ended {
		return s, err
	}
	if !g.LeftToManager() {
		return s, g.Remove()
	}
	if !forgotten && g.AwaitManager(hurry.ofManagers()) {
		return s, nil
	}
	g.nudgeManager() // it may have missed that the group is empty now, seen twice with systemd 252, or fail to stop a scope with a threaded group in it
	if g.AwaitManager(hurry.ofManagers()) {
		return s, nil
	}
	select {
	case <-hurry.ofManagers():
		g.RemoveLate()
		return s, nil
	default:
		return s, g.Parent.Remove(g.Dir)
	}
}

// endContainers ends what an engine runs for the orphan, asked as the sweeper would ask it.
func (g *Suspect) endContainers(engine string, grace time.Duration) (left string) {
	if engine == "" {
		return ""
	}
	if err := (lifecycle.Contained{ID: g.ID, Argv: []string{engine, "run"}, Env: os.Environ(), Grace: grace}).End(); err != nil {
		return err.Error()
	}
	return ""
}

// tell says what became of the orphan.
func (s Swept) tell(about protocol.Subject) {
	if s.Stuck == "" {
		about.Tell(protocol.EventSwept, systemd.Notice, "swept: its launcher and supervisor were gone")
		return
	}
	about.Tell(protocol.EventSwept, systemd.Warning, "swept, but for "+s.Stuck, systemd.JournalField{Name: protocol.FieldStuck, Value: s.Stuck})
}
