//go:build linux

package scope

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/journal"
	"github.com/mcpscope/mcpscope/poll"
	"github.com/mcpscope/mcpscope/proc"
)

// findOrphan returns the group of dir if it is an orphan, locked if that is possible,
// and otherwise nil. What was never armed is removed here once it is old.
func findOrphan(parent *cgroup.Group, dir string) (*controlGroup, error) {
	return findOrphanWith(parent, dir, false)
}

// findOrphanWith waits for another sweeper if it is patient.
func findOrphanWith(parent *cgroup.Group, dir string, patient bool) (*controlGroup, error) {
	g := &controlGroup{id: idOf(dir), dir: dir, parent: parent, managed: strings.HasSuffix(dir, scopeSuffix), patient: patient}
	orphan, err := g.look()
	if orphan && err == nil {
		return g, nil
	}
	g.close()
	return nil, ignoreGone(err)
}

// look opens the group and applies the rule.
func (g *controlGroup) look() (orphan bool, err error) {
	if g.top, err = g.parent.Child(g.dir); err != nil {
		return false, err
	}
	g.payload, err = g.top.Child(payloadName)
	if errors.Is(err, unix.ENOENT) {
		return false, g.removeNewborn()
	}
	if err != nil {
		return false, err
	}
	// nothing is started in a group before it is armed, so one with members was
	_, armed, err := g.payload.Attr(attrArmed)
	if err == nil && !armed && !populated(g.payload) {
		return false, g.removeNewborn()
	}
	if err != nil {
		return false, err
	}
	g.supervisor, err = g.top.Child(supervisorName)
	if err != nil && !errors.Is(err, unix.ENOENT) { // a member may have removed it when it was empty
		return false, err
	}
	return g.orphan()
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
func (g *controlGroup) removeNewborn() error {
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
	_ = g.remove() // EBUSY: it has a member after all
	return nil
}

// remind makes systemd look at an empty scope again. When the first process in one ends at
// once, systemd (252) misses that and has the scope run for ever; it looks whether anybody is
// in it whenever something changes in cgroup.events, which tells of freezing as well.
func (g *controlGroup) remind() {
	if !populated(g.top) && g.top.SetFrozen(true) == nil {
		_ = g.top.SetFrozen(false) // gone is as good
	}
}

// orphan applies the rule to an armed group: it is one if its lock is free, or if
// its supervisor and its launcher are gone although someone holds the lock. A launcher
// locks before it arms, so no start can meet this attempt at the lock.
func (g *controlGroup) orphan() (bool, error) {
	err := g.payload.TryLock(unix.LOCK_EX)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return g.abandoned()
	}
	if err != nil {
		return false, err
	}
	if self, err := identify(unix.Getpid()); err == nil {
		_ = g.payload.SetAttr(attrSweeper, self.String()) // at worst another sweeper asks once more
	}
	return true, nil
}

// abandoned looks at a group that is locked: by its supervisor or launcher, as a
// rule, by another sweeper, or by someone who got the descriptor from them.
func (g *controlGroup) abandoned() (bool, error) {
	for _, attr := range []string{attrLauncher, attrSweeper} {
		who, _, err := g.payload.Attr(attr)
		if err != nil {
			return false, err
		}
		id, ok := parseIdentity(who)
		if !ok || !id.alive() {
			continue
		}
		if attr == attrSweeper && g.outlives(id) {
			return g.payload.TryLock(unix.LOCK_EX) == nil, nil
		}
		return false, nil
	}
	if g.supervisor == nil || !populated(g.supervisor) {
		return true, nil
	}
	pids, err := g.supervisor.Members()
	if err != nil || len(pids) == 0 {
		return false, err // it lives where we can't see it
	}
	return g.wake(pids)
}

// outlives waits, for a bounded time, until another sweeper has emptied the group, or has died
// before it did. That may be the supervisor of a server that ends meanwhile: whoever asks for a
// sweep must not be told that all is well, with an orphan that nobody ends any more.
func (g *controlGroup) outlives(sweeper identity) bool {
	if !g.patient {
		return false
	}
	fd, err := unix.PidfdOpen(sweeper.PID, 0)
	if err != nil {
		return !sweeper.alive()
	}
	defer unix.Close(fd)
	if !sweeper.alive() { // what we have opened may be another
		return true
	}
	_, emptied, err := g.top.Await(time.Now().Add(wakeWithin), fd, isEmpty)
	return err == nil && !emptied && poll.Ended(fd)
}

// wake continues a supervisor that was stopped or frozen and has no launcher to do it.
// It ends its group itself then. One that can't, because a member stops it faster than
// it can act, is killed, which makes its group an orphan.
func (g *controlGroup) wake(pids []int) (bool, error) {
	if !frozen(g.supervisor) && !allStopped(pids) {
		return false, nil // it lives and works
	}
	_ = g.top.SetFrozen(false) // by systemctl freeze, or by a member
	_ = g.supervisor.Thaw()
	if _, err := freeze.Signal(g.supervisor, unix.SIGCONT); err != nil {
		return false, err
	}
	if gone, err := g.awaitEnd(); gone || err != nil {
		return false, err
	}
	_, err := freeze.Kill(g.supervisor, supervisorGoneWithin)
	return err == nil, err
}

func allStopped(pids []int) bool {
	for _, pid := range pids {
		if st, err := proc.ReadStat(pid); err == nil && !st.Stopped() || err != nil && !errors.Is(err, proc.ErrGone) {
			return false
		}
	}
	return true
}

// awaitEnd waits until a supervisor that was woken has left.
func (g *controlGroup) awaitEnd() (gone bool, err error) {
	_, gone, err = g.supervisor.Await(time.Now().Add(wakeWithin), -1, isEmpty)
	return gone, err
}

// end ends an orphan and removes its group. g is closed.
//
// An empty scope may be one that systemd has forgotten, or one that has just ended as it
// should, or one whose end systemd has missed. The kernel holds word of a change back for
// 10 ms, on a busy machine for much longer, and a removal drops it: then systemd has the scope
// run for ever. So it is told, and gets the time to hear; what it has heard it acts on.
func (g *controlGroup) end(grace time.Duration, hurry *freeze.Flag) (Swept, error) {
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
func (g *controlGroup) awaitManager() {
	for pause := time.Millisecond; pause < forgottenAfter; pause *= 2 {
		top, err := g.parent.Child(g.dir)
		if err != nil {
			return
		}
		_ = top.Close() // a directory
		<-time.After(pause)
	}
}
