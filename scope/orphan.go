//go:build linux

package scope

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/journal"
	"github.com/mcpscope/mcpscope/proc"
)

// A verdict is what the kernel says of a group that somebody else has made.
type verdict int

const (
	inUse    verdict = iota // or not a server's, or no group any more
	orphaned                // nobody is left who would end it
	unclear                 // one of both: settle waits for what tells
)

// suspect is a group that somebody else has made, and that may be an orphan.
type suspect struct{ *controlGroup }

// findOrphan returns the group of dir if it is an orphan, locked if that is possible, and otherwise
// nil. It waits until the deadline for what is unclear. A group that was never armed is removed here
// once it is old.
func findOrphan(parent *cgroup.Group, dir string, until time.Time) (*suspect, error) {
	g, v, err := judge(parent, dir)
	if v == unclear && err == nil {
		v, err = g.settle(until)
	}
	if v == orphaned && err == nil {
		return g, nil
	}
	g.close()
	return nil, ignoreGone(err)
}

// judge opens the group and applies the rule, without waiting.
func judge(parent *cgroup.Group, dir string) (*suspect, verdict, error) {
	g := &suspect{controlGroup: &controlGroup{id: idOf(dir), dir: dir, parent: parent, managed: strings.HasSuffix(dir, scopeSuffix)}}
	v, err := g.look()
	return g, v, err
}

func (g *suspect) look() (verdict, error) {
	var err error
	if g.top, err = g.parent.Child(g.dir); err != nil {
		return inUse, err
	}
	g.payload, err = g.top.Child(payloadName)
	if errors.Is(err, unix.ENOENT) {
		return inUse, g.removeNewborn()
	}
	if err != nil {
		return inUse, err
	}
	if ours, err := g.isServers(); !ours || err != nil {
		return inUse, err
	}
	g.supervisor, err = g.top.Child(supervisorName)
	if err != nil && !errors.Is(err, unix.ENOENT) { // a member may have removed it when it was empty
		return inUse, err
	}
	return g.orphan()
}

// isServers tells whether the group was armed. A directory of another program may have a name like
// ours, so one that is not armed and has members is ours only if a member carries its mark: nothing is
// started in a group before it is armed, but the owner can remove the attribute.
func (g *suspect) isServers() (bool, error) {
	_, armed, err := g.payload.Attr(attrArmed)
	if armed || err != nil {
		return armed, err
	}
	if !populated(g.top) {
		return false, g.removeNewborn()
	}
	pids, err := g.top.Members()
	return slices.ContainsFunc(pids, markOf(g.id).On), err
}

// populated takes what can't be read for populated: to believe in a member that is not
// there costs time, the other mistake costs a survivor.
func populated(g freeze.Target) bool {
	st, err := g.State()
	return err != nil || st.Populated
}

func idOf(dir string) string {
	dir = strings.TrimSuffix(dir, scopeSuffix)
	return dir[strings.LastIndexByte(dir, '-')+1:]
}

// ignoreGone: a group that ends while it is looked at is no error.
func ignoreGone(err error) error {
	if IsGone(err) {
		return nil
	}
	return err
}

// IsGone tells whether an error says that a server has ended since it was listed.
func IsGone(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ESRCH) || errors.Is(err, proc.ErrGone)
}

// removeNewborn removes a group whose launcher died before it armed it. A launcher
// that is only slow finds it gone, or its lock taken, and makes another.
func (g *suspect) removeNewborn() error {
	var st unix.Stat_t
	if err := unix.Fstat(g.top.FD(), &st); err != nil {
		return fmt.Errorf("look at %s: %w", g.top, err)
	}
	if time.Since(time.Unix(st.Mtim.Unix())) < newbornAge {
		return nil
	}
	if g.payload != nil && g.payload.TryLock(unix.LOCK_EX) != nil {
		return nil // it is being armed just now
	}
	if g.managed {
		g.remind()
		return nil
	}
	if ours, err := g.holdsNothingElse(st.Mode); !ours || err != nil {
		return err
	}
	return ignoreBusy(g.removeLeaves())
}

// holdsNothingElse: cgroups of other programs may have names like ours (mcp-web-database). Ours have
// no directory in them but the two leaves. A launcher that was killed before it had made those leaves
// nothing in it, but the mode that no other program gives a cgroup.
func (g *suspect) holdsNothingElse(mode uint32) (bool, error) {
	names, err := g.top.Children()
	others := slices.ContainsFunc(names, func(name string) bool { return name != supervisorName && name != payloadName })
	return err == nil && !others && (len(names) > 0 || mode&0o777 == groupMode), err
}

// ignoreBusy: it has a member after all, or somebody has made a directory in it.
func ignoreBusy(err error) error {
	if errors.Is(err, unix.EBUSY) || errors.Is(err, unix.ENOTEMPTY) {
		return nil
	}
	return err
}

// remind makes systemd look at an empty scope again. When the first process in one ends at
// once, systemd (252) misses that and has the scope run for ever; it looks whether anybody is
// in it whenever something changes in cgroup.events, which tells of freezing as well.
func (g *suspect) remind() {
	if !populated(g.top) && g.top.SetFrozen(true) == nil {
		_ = g.top.SetFrozen(false) // gone is as good
	}
}

// orphan applies the rule to an armed group: it is an orphan if its lock is free, or if no supervisor
// lives although somebody holds the lock. A launcher locks before it arms, so no start can meet this
// attempt at the lock. Attributes are what the server itself can write: they may shorten a wait, and
// prevent no end.
func (g *suspect) orphan() (verdict, error) {
	err := g.payload.TryLock(unix.LOCK_EX)
	if err == nil {
		if self, err := identify(unix.Getpid()); err == nil {
			_ = g.payload.SetAttr(attrSweeper, self.String()) // without it another sweeper waits longer
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
	case len(supervisors) == 0 && !populated(g.top) && g.said(attrLauncher, identity.alive):
		return inUse, nil // it is being started, or has just ended
	case len(supervisors) == 0 && !g.said(attrLauncher, identity.alive) && !g.said(attrSweeper, identity.alive):
		return orphaned, nil
	}
	return unclear, nil
}

// supervisors are the processes in the leaf that can be one. A member that has put itself there
// carries the mark; one that has dropped the mark is still not called as a supervisor is. hidden
// tells that there are processes of which we can't see which.
func (g *suspect) supervisors() (pids []int, hidden bool, err error) {
	if g.supervisor == nil || !populated(g.supervisor) {
		return nil, false, nil
	}
	all, err := g.supervisor.Members()
	if err != nil || len(all) == 0 {
		return nil, err == nil, err // in a pid namespace beside ours
	}
	return slices.DeleteFunc(all, func(pid int) bool { return markOf(g.id).On(pid) || !supervises(pid) }), false, nil
}

// supervises tells whether a process is called as a supervisor, which it is not before it has executed
// anything.
func supervises(pid int) bool {
	line, err := proc.Cmdline(pid, commandMost)
	return err == nil && strings.HasPrefix(line, superviseLine)
}

// halted tells whether no supervisor can act, for a stop or a freeze that was meant for it. A freeze
// further up is none of our business: somebody has paused a container.
func (g *suspect) halted(supervisors []int) bool {
	if frozen(g.supervisor) {
		return !frozen(g.parent)
	}
	return allStopped(supervisors)
}

// launcherLives goes by more than what an attribute says: the launcher holds the lock, and is no
// member. In another pid namespace it can't be looked at, and may live.
func (g *suspect) launcherLives() bool {
	return g.said(attrLauncher, func(id identity) bool {
		if id.Namespace != pidNamespace() {
			return true
		}
		return id.alive() && !markOf(g.id).On(id.PID) && g.lockedBy(id.PID)
	})
}

// said asks about the process that an attribute names; false if it names none.
func (g *suspect) said(attr string, about func(identity) bool) bool {
	text, _, _ := g.payload.Attr(attr) // none, if it can't be read
	id, ok := parseIdentity(text)
	return ok && about(id)
}

// lockedBy tells whether a process has a descriptor that holds the lock of the group. Of one that we
// may not look at it is believed.
func (g *suspect) lockedBy(pid int) bool {
	var st unix.Stat_t
	if unix.Fstat(g.payload.FD(), &st) != nil {
		return true
	}
	holds, err := proc.HoldsFlock(pid, st.Dev, st.Ino)
	return holds || err != nil
}

// settle waits until something tells whether the group is an orphan, at most until the deadline. A
// group that has members, and still no supervisor then, is one, whoever has its lock.
func (g *suspect) settle(until time.Time) (verdict, error) {
	if limit := time.Now().Add(doubtMost); until.After(limit) {
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
		return err != nil || v != unclear || !populated(g.top)
	}
	if _, _, err := g.top.Await(until, -1, changed); err != nil {
		return inUse, err
	}
	v, err := g.orphan()
	if v == unclear && populated(g.top) {
		v = orphaned
	}
	return v, err
}

// wake continues a supervisor that was stopped or frozen and has no launcher to do it. It goes on
// with what it has to do then. One that a member stops faster than it can act is killed, which makes
// its group an orphan.
func (g *suspect) wake(supervisors []int, until time.Time) (verdict, error) {
	_ = g.top.SetFrozen(false) // by systemctl freeze, or by a member
	_ = g.supervisor.Thaw()
	if _, err := freeze.Signal(g.supervisor, unix.SIGCONT); err != nil {
		return inUse, err
	}
	if _, gone, err := g.supervisor.Await(until, -1, isEmpty); gone || err != nil {
		return inUse, err
	}
	if !g.halted(supervisors) {
		return inUse, nil
	}
	_, err := freeze.Kill(g.supervisor, supervisorGoneWithin)
	return orphaned, err
}

func allStopped(pids []int) bool {
	for _, pid := range pids {
		if st, err := proc.ReadStat(pid); err == nil && !st.Stopped() || err != nil && !errors.Is(err, proc.ErrGone) {
			return false
		}
	}
	return true
}

// end ends an orphan and removes its group. g is closed.
//
// An empty scope may be one that systemd has forgotten, or one that has just ended as it
// should, or one whose end systemd has missed. The kernel holds word of a change back for
// 10 ms, on a busy machine for much longer, and a removal drops it: then systemd has the scope
// run for ever. So it is told, and gets the time to hear; what it has heard it acts on.
func (g *suspect) end(grace time.Duration, hurry *freeze.Flag) (Swept, error) {
	defer g.close()
	s := Swept{ID: g.id, Dir: g.dir}
	about := g.subject()
	s.Name = about.name
	empty := !populated(g.top)
	forgotten := g.managed && empty
	res, err := g.endWithMarked(freeze.Stop{Ask: unix.SIGTERM, Grace: grace, Hurry: hurry})
	s.Stuck = describeStuck(res.Stuck)
	if !empty && err == nil {
		s.tell(about)
	}
	if err != nil || s.Stuck != "" {
		return s, err
	}
	if forgotten { // by systemd (252), which fails to stop a scope with a threaded group in it
		g.remind()
		g.awaitManager()
		return s, g.parent.Remove(g.dir)
	}
	return s, g.remove()
}

// tell says what became of the orphan.
func (s Swept) tell(about subject) {
	if s.Stuck == "" {
		about.tell(EventSwept, journal.Notice, "swept: its launcher and supervisor were gone")
		return
	}
	about.tell(EventSwept, journal.Warning, "swept, but for "+s.Stuck, journal.Field{Name: FieldStuck, Value: s.Stuck})
}

// awaitManager returns when systemd has removed the scope, or has had the time for it. It looks
// again and again: of inotify instances a user has 128, and those may be taken.
func (g *suspect) awaitManager() {
	for pause := time.Millisecond; pause < forgottenAfter; pause *= 2 {
		top, err := g.parent.Child(g.dir)
		if err != nil {
			return
		}
		_ = top.Close() // a directory
		<-time.After(pause)
	}
}
