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

// Suspect is a group that may be an orphan.
type Suspect struct{ *group.ControlGroup }

// FindOrphan returns the group of dir, locked if possible, or nil if it is no orphan. Without any sign of a
// guard it waits until the deadline, 5 s at most. It removes an old group that was never armed.
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

// Open opens a group and reports whether it belongs to a server. The caller closes it, also after an error.
func Open(parent *cgroup.Group, dir string) (g *Suspect, ours bool, err error) {
	managed := strings.HasSuffix(dir, protocol.ScopeSuffix)
	g = &Suspect{&group.ControlGroup{ID: protocol.IDOf(dir), Dir: dir, Parent: parent, Managed: managed}}
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

// isServers reports whether the group was armed. A directory of another program can have such a name. An
// unarmed group with members counts if a member carries its tag: the owner can remove the attribute.
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

// removeNewborn removes a group whose launcher died before it armed it, or the rest of a group that was
// busy. A launcher that is only slow finds its group removed, or the lock taken, and makes another group.
func (g *Suspect) removeNewborn() error {
	var st unix.Stat_t
	if err := unix.Fstat(g.Top.FD(), &st); err != nil {
		return fmt.Errorf("look at %s: %w", g.Top, err)
	}
	if time.Since(time.Unix(st.Mtim.Unix())) < protocol.NewbornAge {
		return nil
	}
	if g.Payload != nil && g.Payload.TryLock(unix.LOCK_EX) != nil {
		return nil // a launcher is arming it
	}
	if g.Managed {
		g.nudgeManager()
	}
	if ours, err := g.holdsNothingElse(st.Mode); !ours || err != nil {
		return err
	}
	err := g.RemoveLeaves()
	if errors.Is(err, unix.EBUSY) { // it has got a member or a directory
		return nil
	}
	return err
}

// holdsNothingElse: a cgroup of another program can have such a name (mcp-web-database). Ours contain
// nothing but the leaves, or are empty with a mode that no other program uses.
func (g *Suspect) holdsNothingElse(mode uint32) (bool, error) {
	names, err := g.Top.Children()
	others := slices.ContainsFunc(names, func(name string) bool {
		return name != protocol.GuardsName && name != protocol.PayloadName
	})
	return err == nil && !others && (len(names) > 0 || mode&0o777 == group.GroupMode), err
}

// nudgeManager makes systemd check an empty scope again. systemd 252 misses the end of a scope whose first
// process exits at once, or that has a threaded group. It checks again at each change of cgroup.events,
// also for a freeze.
func (g *Suspect) nudgeManager() {
	if !group.Populated(g.Top) && g.Top.SetFrozen(true) == nil {
		_ = g.Top.SetFrozen(false) // gone is as good
	}
}

// A verdict on a group.
type verdict int

const (
	inUse    verdict = iota
	orphaned         // no process is left to stop it
	unclear          // members, no guard, and a launcher in another pid namespace
)

// orphan applies the rule to an armed group. A group that is still unclear at the deadline is an orphan.
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
	return g.isServers() // a gateway may have released it
}

// look: an armed group is an orphan if its lock is free. A launcher locks before it arms, so this attempt
// meets no start. When launcher and guard are dead a member can take the lock. So a lock does not count
// without either of them, or with a guard that cannot act. Attributes, which the server can write, can
// delay a stop and not prevent it.
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
	return inUse, nil // it starts, or has just ended
}

// halted reports whether a guard is stopped or frozen. A freeze further up belongs to a container that is
// paused.
func (g *Suspect) halted(guard int) bool {
	st, err := proc.ReadStat(guard)
	return err == nil && st.Stopped() || group.Frozen(g.Top) && !group.Frozen(g.Parent)
}

// launcher does not rely on the attribute alone: a launcher that lives has taken the lock, and is no
// member. known is false for a launcher in another pid namespace.
func (g *Suspect) launcher() (lives, known bool) {
	text, _, _ := g.Payload.Attr(group.AttrLauncher) // none, if it can't be read
	id, named := group.ParseIdentity(text)
	if named && id.Namespace != hierarchy.PIDNamespace() {
		return false, false
	}
	var st unix.Stat_t
	if !named || !id.Alive() || group.TagOf(g.ID).On(id.PID) || unix.Fstat(g.Payload.FD(), &st) != nil {
		return false, true
	}
	holds, err := proc.HoldsFlock(id.PID, st.Dev, st.Ino)
	return holds || err != nil, true
}

// End stops an orphan, removes its group and closes g.
//
// The kernel delays the notification of an empty group for 10 ms, and much longer on a busy machine. A
// removal drops it, and systemd keeps the scope. So systemd gets the time to remove the scope itself.
func (g *Suspect) End(grace time.Duration) (Swept, error) {
	defer g.Close()
	of := g.Facts()
	s := Swept{ID: g.ID, Name: of.Name, Dir: g.Dir}
	empty := !group.Populated(g.Top)
	engine := g.Engine()
	if container.EndsFirst(engine) {
		_ = g.endContainers(engine, grace) // repeated below
	}
	left, err := g.EndWithTagged(freeze.Stop{Ask: unix.SIGTERM, Grace: grace})
	s.Stuck = group.DescribeStuck(left)
	ended := err == nil && s.Stuck == ""
	if ended { // a server may have named an engine that fails: the group is removed all the same
		s.Stuck = g.endContainers(engine, 0)
	}
	if !empty && err == nil {
		s.log(protocol.Subject{ID: g.ID, Name: of.Name, Client: of.Client})
	}
	if !ended {
		return s, err
	}
	if guard := g.OpenGuard(); guard >= 0 { // it was halted, and exits when it runs
		_ = g.Top.Thaw()                                      // it was removed
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

// endContainers stops the containers of the orphan. It calls the engine as the calling user.
func (g *Suspect) endContainers(engine string, grace time.Duration) (left string) {
	if engine == "" {
		return ""
	}
	c := container.Contained{ID: g.ID, Argv: []string{engine, "run"}, Env: os.Environ(), Grace: grace}
	if err := c.End(); err != nil {
		return err.Error()
	}
	return ""
}

func (s Swept) log(about protocol.Subject) {
	if s.Stuck == "" {
		about.Log(protocol.EventSwept, systemd.Notice, "swept: its launcher and guard were gone")
		return
	}
	stuck := systemd.JournalField{Name: protocol.FieldStuck, Value: s.Stuck}
	about.Log(protocol.EventSwept, systemd.Warning, "swept, but for "+s.Stuck, stuck)
}
