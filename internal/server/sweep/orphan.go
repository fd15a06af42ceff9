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
	"github.com/mcpscope/mcpscope/internal/kernel/linux"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/server/container"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/hierarchy"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// Suspect is a group that somebody else has made, and that may be an orphan.
type Suspect struct{ *group.ControlGroup }

// FindOrphan returns the group of dir if it is an orphan, locked if that is possible, and otherwise
// nil. Until the deadline, 5 s at most, it waits for a guard of which there is no sign. A group that was
// never armed is removed here once it is old.
func FindOrphan(parent *cgroup.Group, dir string, until time.Time) (*Suspect, error) {
	g, ours, err := Open(parent, dir)
	orphan := false
	if ours && err == nil {
		orphan, err = g.orphan(until)
	}
	if orphan && err == nil {
		return g, nil
	}
	g.Close()
	return nil, group.IgnoreGone(err)
}

// Open opens a group, and tells whether it is a server's. It is to be closed, also after an error.
func Open(parent *cgroup.Group, dir string) (g *Suspect, ours bool, err error) {
	g = &Suspect{&group.ControlGroup{ID: protocol.IDOf(dir), Dir: dir, Parent: parent, Managed: strings.HasSuffix(dir, protocol.ScopeSuffix)}}
	if g.Top, err = parent.Child(dir); err != nil {
		return g, false, err
	}
	g.Payload, err = g.Top.Child(protocol.PayloadName)
	if errors.Is(err, unix.ENOENT) {
		return g, false, g.removeNewborn()
	}
	if err != nil {
		return g, false, err
	}
	ours, err = g.isServers()
	return g, ours, err
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
// no directory in them but the leaves. A launcher that was killed before it had made those leaves
// nothing in it, but the mode that no other program gives a cgroup.
func (g *Suspect) holdsNothingElse(mode uint32) (bool, error) {
	names, err := g.Top.Children()
	others := slices.ContainsFunc(names, func(name string) bool { return name != protocol.GuardsName && name != protocol.PayloadName })
	return err == nil && !others && (len(names) > 0 || mode&0o777 == group.GroupMode), err
}

// nudgeManager makes systemd look at an empty scope again. systemd (252) misses the end of a scope, when the first process
// in it ends at once or a threaded group is in it, and has the scope run for ever. It looks whether anybody is
// in it whenever something changes in cgroup.events, which tells of freezing as well.
func (g *Suspect) nudgeManager() {
	if !group.Populated(g.Top) && g.Top.SetFrozen(true) == nil {
		_ = g.Top.SetFrozen(false) // gone is as good
	}
}

// A verdict is what the kernel says of a group.
type verdict int

const (
	inUse    verdict = iota
	orphaned         // nobody is left who would end it
	unclear          // it has members and no guard, and a launcher that can't be looked at
)

// orphan applies the rule to an armed group. What is unclear until the deadline is an orphan.
func (g *Suspect) orphan(until time.Time) (bool, error) {
	v, err := g.look()
	if v == unclear && err == nil {
		if most := time.Now().Add(protocol.DoubtMost); until.After(most) {
			until = most
		}
		var waitErr error
		_, _, waitErr = g.Top.Await(until, func(cgroup.State) bool {
			v, err = g.look()
			return err != nil || v != unclear
		})
		err = errors.Join(err, waitErr)
	}
	if v == inUse || err != nil {
		return false, err
	}
	return g.isServers() // a gateway can have given it up meanwhile
}

// look: an armed group is an orphan if its lock is free. A launcher locks before it arms, so no start can meet this
// attempt at the lock. But a member can take the lock when launcher and guard are dead, so a lock does not count
// where there is neither, or only a guard that cannot act. Attributes are what the server itself can write: they delay an
// end, and prevent none.
func (g *Suspect) look() (verdict, error) {
	err := g.Payload.TryLock(unix.LOCK_EX)
	if err == nil {
		return orphaned, nil
	}
	if !errors.Is(err, unix.EWOULDBLOCK) {
		return inUse, err
	}
	guard, hidden := g.GuardPID()
	lives, known := g.launcher()
	switch {
	case lives || hidden && guard == 0:
		return inUse, nil
	case guard > 0 && (!known || !g.halted(guard)):
		return inUse, nil
	case known:
		return orphaned, nil
	case group.Populated(g.Top):
		return unclear, nil
	}
	return inUse, nil // it is being started, or has just ended
}

// halted tells whether a guard can't act, for a stop or a freeze that was meant for it. A freeze further up is somebody's who has
// paused a container.
func (g *Suspect) halted(guard int) bool {
	st, err := proc.ReadStat(guard)
	return err == nil && st.Stopped() || group.Frozen(g.Top) && !group.Frozen(g.Parent)
}

// launcher goes by more than what an attribute says: a launcher that lives holds the lock, and is no member. One in another pid
// namespace can't be looked at: known is false.
func (g *Suspect) launcher() (lives, known bool) {
	known = true
	lives = g.Said(group.AttrLauncher, func(id group.Identity) bool {
		if known = id.Namespace == hierarchy.PIDNamespace(); !known {
			return false
		}
		var st unix.Stat_t
		if !id.Alive() || group.TagOf(g.ID).On(id.PID) || unix.Fstat(g.Payload.FD(), &st) != nil {
			return false
		}
		holds, err := proc.HoldsFlock(id.PID, st.Dev, st.Ino)
		return holds || err != nil
	})
	return lives, known
}

// Said asks about the process that an attribute names; false if it names none.
func (g *Suspect) Said(attr string, about func(group.Identity) bool) bool {
	text, _, _ := g.Payload.Attr(attr) // none, if it can't be read
	id, ok := group.ParseIdentity(text)
	return ok && about(id)
}

// End ends an orphan and removes its group. g is closed.
//
// An empty scope may be one that systemd has forgotten, or one that has just ended as it
// should, or one whose end systemd has missed. The kernel holds word of a change back for
// 10 ms, on a busy machine for much longer, and a removal drops it: then systemd has the scope
// run for ever. So systemd is notified, and gets the time to remove the scope.
func (g *Suspect) End(grace time.Duration) (Swept, error) {
	defer g.Close()
	s := Swept{ID: g.ID, Dir: g.Dir}
	about := g.Subject()
	s.Name = about.Name
	empty := !group.Populated(g.Top)
	engine := g.Engine()
	if container.EndsFirst(engine) {
		_ = g.endContainers(engine, grace) // it is asked once more
	}
	left, err := g.EndWithTagged(freeze.Stop{Ask: unix.SIGTERM, Grace: grace})
	s.Stuck = group.DescribeStuck(left)
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
	if guard := g.OpenGuard(); guard >= 0 { // it was halted, and has nothing left to do but to exit
		_ = g.Top.Thaw()                                      // gone is as good
		_ = unix.PidfdSendSignal(guard, unix.SIGCONT, nil, 0) // as above
		linux.AwaitEnd(guard, unix.POLLIN, protocol.ReactWithin)
		_ = unix.Close(guard)
	}
	if g.Managed {
		if g.nudgeManager(); g.AwaitManager() {
			return s, nil
		}
	}
	return s, g.Parent.Remove(g.Dir)
}

// endContainers ends what an engine runs for the orphan, asked as the sweeper would ask it.
func (g *Suspect) endContainers(engine string, grace time.Duration) (left string) {
	if engine == "" {
		return ""
	}
	if err := (container.Contained{ID: g.ID, Argv: []string{engine, "run"}, Env: os.Environ(), Grace: grace}).End(); err != nil {
		return err.Error()
	}
	return ""
}

// tell says what became of the orphan.
func (s Swept) tell(about protocol.Subject) {
	if s.Stuck == "" {
		about.Tell(protocol.EventSwept, systemd.Notice, "swept: its launcher and guard were gone")
		return
	}
	about.Tell(protocol.EventSwept, systemd.Warning, "swept, but for "+s.Stuck, systemd.JournalField{Name: protocol.FieldStuck, Value: s.Stuck})
}
