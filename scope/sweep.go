//go:build linux

package scope

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/proc"
	"github.com/mcpscope/mcpscope/systemd"
)

// Swept is an orphan that was ended.
type Swept struct {
	Name  string
	ID    string
	Dir   string
	Stuck string // who could not be killed, "" if all is gone
}

// sweepGrace is what an orphan gets between the asking and the kill.
const (
	sweepGrace    = time.Second
	sweepNow      = 0
	sweepParallel = 16
	sweepEvery    = time.Second
)

// Sweep ends the orphans of the calling user, wherever a backend has put them. A group
// whose supervisor or launcher lives, or that is being made, is never touched.
func Sweep() ([]Swept, error) {
	here, err := ownCgroup()
	if err != nil {
		return nil, fmt.Errorf("find our cgroup: %w", err)
	}
	var all []Swept
	var errs []error
	for _, parent := range here.parents(os.Getuid()) {
		swept, err := sweep(parent, "")
		_ = parent.Close() // a directory
		all = append(all, swept...)
		errs = append(errs, err)
	}
	return all, errors.Join(errs...)
}

// parents opens the directories in which our groups may be, as far as they exist.
func (at location) parents(uid int) []*cgroup.Group {
	var all []*cgroup.Group
	add := func(g *cgroup.Group, err error) {
		if err == nil {
			all = append(all, g)
		}
	}
	add(at.root.Child(path.Join(sliceName, strconv.Itoa(uid))))
	if uid == 0 {
		add(at.scopes(systemd.System, uid))
	}
	add(at.scopes(systemd.User, uid))
	if at.path != "/" {
		add(at.root.Child(strings.TrimPrefix(at.path, "/")))
	}
	return all
}

// sweepFor is the sweep that every supervisor does when its own payload runs. Of many
// that start together one is enough: who finds that there was a sweep a moment ago
// looks once more when that moment is over, and so sees what was left since.
func sweepFor(own *group) {
	for range 2 {
		wait := sweepEvery - sinceSweep(own.parent)
		if wait <= 0 {
			// a mark is no lock, which a stopped sweeper would keep
			_ = own.parent.SetAttr(attrSwept, strconv.FormatInt(time.Now().UnixNano(), 10)) // at worst two sweep
			_, _ = sweep(own.parent, own.dir)                                               // what failed is tried by the next one
			return
		}
		<-time.After(wait)
	}
}

// sinceSweep is how long ago the last sweep of this directory began.
func sinceSweep(parent *cgroup.Group) time.Duration {
	mark, _, _ := parent.Attr(attrSwept)
	nanos, err := strconv.ParseInt(mark, 10, 64)
	ago := time.Since(time.Unix(0, nanos))
	if err != nil || ago < 0 {
		return sweepEvery // no mark, or of a clock that was set back
	}
	return ago
}

func sweep(parent *cgroup.Group, except string) ([]Swept, error) {
	dirs, err := parent.Children()
	if err != nil {
		return nil, err
	}
	var (
		mu   sync.Mutex
		wg   sync.WaitGroup
		done []Swept
		errs []error
		slot = make(chan struct{}, sweepParallel)
	)
	for _, dir := range dirs {
		if dir == except || !strings.HasPrefix(dir, groupPrefix) {
			continue
		}
		orphan, err := findOrphan(parent, dir)
		if orphan == nil && err == nil {
			continue
		}
		wg.Go(func() {
			slot <- struct{}{}
			defer func() { <-slot }()
			var s Swept
			if err == nil {
				s, err = orphan.end(sweepGrace)
			}
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, fmt.Errorf("sweep %s: %w", dir, err))
				return
			}
			done = append(done, s)
		})
	}
	wg.Wait()
	return done, errors.Join(errs...)
}

// sweepOne ends one group if it is an orphan.
func sweepOne(parent *cgroup.Group, dir string, grace time.Duration) (Swept, error) {
	orphan, err := findOrphan(parent, dir)
	if orphan == nil || err != nil {
		return Swept{}, err
	}
	return orphan.end(grace)
}

// findOrphan returns the group of dir if it is an orphan, locked if that is possible,
// and otherwise nil. What was never armed is removed here once it is old.
func findOrphan(parent *cgroup.Group, dir string) (*group, error) {
	g := &group{id: idOf(dir), dir: dir, parent: parent, managed: strings.HasSuffix(dir, scopeSuffix)}
	orphan, err := g.look()
	if orphan && err == nil {
		return g, nil
	}
	g.close()
	return nil, ignoreGone(err)
}

// look opens the group and applies the rule.
func (g *group) look() (orphan bool, err error) {
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
func populated(g *cgroup.Group) bool {
	events, err := g.Events()
	if err != nil {
		return !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENODEV)
	}
	defer events.Close()
	st, err := events.State()
	return err != nil || st.Populated
}

func idOf(dir string) string {
	dir = strings.TrimSuffix(dir, scopeSuffix)
	return dir[strings.LastIndexByte(dir, '-')+1:]
}

// ignoreGone: a group that ends while it is looked at is no error.
func ignoreGone(err error) error {
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	return err
}

// removeNewborn removes a group whose launcher died before it armed it. A launcher
// that is only slow finds it gone, or its lock taken, and makes another.
func (g *group) removeNewborn() error {
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
	_ = g.remove() // EBUSY: it has a member after all
	return nil
}

// orphan applies the rule to an armed group: it is one if its lock is free, or if
// its supervisor and its launcher are gone although someone holds the lock. A launcher
// locks before it arms, so no start can meet this attempt at the lock.
func (g *group) orphan() (bool, error) {
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
func (g *group) abandoned() (bool, error) {
	for _, attr := range []string{attrLauncher, attrSweeper} {
		who, _, err := g.payload.Attr(attr)
		if err != nil {
			return false, err
		}
		if id, ok := parseIdentity(who); ok && id.alive() {
			return false, nil
		}
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

// wake continues a supervisor that was stopped or frozen and has no launcher to do it.
// It ends its group itself then. One that can't, because a member stops it faster than
// it can act, is killed, which makes its group an orphan.
func (g *group) wake(pids []int) (bool, error) {
	if !frozen(g.supervisor) && !allStopped(pids) {
		return false, nil // it lives and works
	}
	_ = g.top.SetFrozen(false) // by a member: nobody else freezes a supervisor
	_ = freeze.Thaw(g.supervisor)
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
		if st, err := proc.ReadStat(pid); err == nil && st.State != 'T' {
			return false
		}
	}
	return true
}

// awaitEnd waits until a supervisor that was woken has left.
func (g *group) awaitEnd() (gone bool, err error) {
	events, err := g.supervisor.Events()
	if err != nil {
		return true, ignoreGone(err)
	}
	defer events.Close()
	_, gone, err = events.Wait(time.Now().Add(wakeWithin), -1, isEmpty)
	return gone, err
}

// end ends an orphan and removes its group. g is closed.
func (g *group) end(grace time.Duration) (Swept, error) {
	defer g.close()
	s := Swept{ID: g.id, Dir: g.dir}
	s.Name, _, _ = g.payload.Attr(attrName) // for people only
	// all of it: a member may have moved to the directory above the payload
	res, err := freeze.Stop{Group: g.top, Ask: unix.SIGTERM, Grace: grace}.Run()
	s.Stuck = describeStuck(res.Stuck)
	if err != nil || s.Stuck != "" {
		return s, err
	}
	return s, g.remove()
}
