// SPDX-License-Identifier: Apache-2.0

// Package sweep finds orphans and stops them. It never kills in a group whose guard can act: it may have that
// guard stop its server, whose launcher was asked in vain.
package sweep

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/kernel/linux"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/server/backend"
	"github.com/mcpscope/mcpscope/internal/server/causes"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/journal"
	"github.com/mcpscope/mcpscope/internal/server/names"
	"github.com/mcpscope/mcpscope/internal/server/orphan"
	"github.com/mcpscope/mcpscope/internal/server/policy"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/text"
)

// Swept is an orphan that was stopped.
type Swept struct {
	Name  string `json:"name"`
	ID    string `json:"id"`
	Dir   string `json:"group"`
	Stuck string `json:"stuck,omitempty"` // members that SIGKILL did not end
}

// SweepFilter selects orphans; the zero value selects all.
type SweepFilter struct {
	Unit     string                              // the unit that the client was in
	UnitStop func(systemd.Kind, string) UnitStop // how that unit is stopped
	AllUsers bool                                // root only
	DryRun   bool                                // they are listed, and not stopped
	// OlderThan leaves out servers that started later, or at a time that is not known. 0 leaves out none.
	OlderThan time.Duration
}

// includes reports whether the filter selects an orphan. It does not compare users.
func (f SweepFilter) includes(of *protocol.Facts) bool {
	isOfUnit := f.Unit == "" || f.Unit == of.Client.Unit
	isOld := f.OlderThan == 0 || of.Started > 0 && time.Since(time.Unix(0, of.Started)) >= f.OlderThan
	return isOfUnit && isOld
}

const (
	SweepGrace    = time.Second // from SIGTERM to SIGKILL
	sweepParallel = 64
	sweepFinish   = 5 * time.Second // the longest wait for the sweep of a start
	aloneWithin   = time.Second     // the longest wait for another sweep
	exitWithin    = 200 * time.Millisecond
	pause         = 10 * time.Millisecond
	gatherEach    = time.Millisecond // reading one group takes up to 0.4 ms
	gatherMost    = 900 * time.Millisecond
)

// Sweep stops the orphans of the calling user. It never touches a group whose guard can act, or that is
// being made.
func Sweep(f SweepFilter) ([]Swept, error) {
	if f.AllUsers && os.Getuid() != 0 {
		return nil, group.ErrOthers()
	}
	s := sweeper{filter: f, until: time.Now().Add(aloneWithin)}
	users := group.CallingUser()
	if f.Unit != "" && !f.DryRun {
		if stop := f.findUnitStop(); stop != nil {
			s.errs = append(s.errs, stop.await(&s, users))
		}
	}
	if f.AllUsers && !f.DryRun { // our own before, which others can't delay so
		s.sweepAll(users)
	}
	if f.AllUsers {
		users = group.Everyone()
	}
	var trees sync.WaitGroup
	if f.Unit == "" {
		trees.Go(func() { s.sweepTrees(users) })
	}
	s.sweepAll(users)
	trees.Wait()
	return s.done, errors.Join(s.errs...)
}

// Begun is a sweep that goes on.
type Begun struct {
	dead    chan struct{} // no orphan has a process any more
	removed chan struct{} // nor a directory
}

// AwaitDeaths waits until no process is left of any orphan, but no longer than that.
func (b *Begun) AwaitDeaths(within time.Duration) { await(b.dead, within) }

// Await waits until nothing is left of any orphan, but no longer than sweepFinish. A manager may take seconds
// to remove an empty scope.
func (b *Begun) Await() { await(b.removed, sweepFinish) }

func await(event chan struct{}, within time.Duration) {
	select {
	case <-event:
	case <-time.After(within):
	}
}

// BeginSweep is the sweep of a start, in the directory of its group, which it closes. Of servers that start
// together one sweeps.
func BeginSweep(parent *cgroup.Group, except string) *Begun {
	return beginSweep(lockForSweep(parent), except)
}

// BeginSweepOfMany is BeginSweep for the starts of many servers in a row. It first waits for a time that
// grows with the number of groups, and no other start in that directory waits meanwhile. So the sweeps of all
// of them together take only a part of a processor. It returns after that time.
func BeginSweepOfMany(parent *cgroup.Group, except string) *Begun {
	if parent == nil {
		return beginSweep(nil, except)
	}
	turn, isOurs := takeTurn(parent)
	defer unix.Close(turn) // a file that is only read, or -1
	if !isOurs {
		_ = parent.Close() // a directory
		return beginSweep(nil, except)
	}
	groups := 0
	for _, dir := range withSessions(parent) {
		groups += len(group.OwnIn(dir))
		if dir != parent {
			_ = dir.Close() // a directory
		}
	}
	wait := min(time.Duration(groups)*gatherEach, gatherMost)
	_ = unix.Nanosleep(&unix.Timespec{Nsec: int64(wait)}, nil) // a signal only shortens it
	return BeginSweep(parent, except)
}

// takeTurn locks a file of a directory, and not the directory: a server that has ended sweeps there at once,
// for nested servers. Beside a lock of another user it is always our turn.
func takeTurn(parent *cgroup.Group) (fd int, isOurs bool) {
	fd, err := unix.Openat(parent.FD(), "cgroup.procs", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, true // it was removed
	}
	_, err = group.LockFileUnlessForeign(fd, os.Getuid())
	return fd, err == nil
}

// lockForSweep returns the directory of a start, and those of sessions, in which no other process of the user
// or of root sweeps. It closes all others.
func lockForSweep(parent *cgroup.Group) []*cgroup.Group {
	if parent == nil {
		return nil
	}
	return slices.DeleteFunc(withSessions(parent), func(dir *cgroup.Group) bool {
		if _, err := group.LockUnlessForeign(dir, os.Getuid()); err == nil {
			return false
		}
		_ = dir.Close() // a directory
		return true
	})
}

// beginSweep stops the orphans of directories that lockForSweep has returned, and closes these.
func beginSweep(locked []*cgroup.Group, except string) *Begun {
	b := &Begun{dead: make(chan struct{}), removed: make(chan struct{})}
	var found []suspects
	for _, dir := range locked {
		orphans := suspectsIn(dir, except)
		if len(orphans.dirs) == 0 && len(orphans.kept) == 0 {
			_ = dir.Close() // a directory
			continue
		}
		found = append(found, orphans)
	}
	if len(found) == 0 { // a server may have used up all process numbers, and a thread needs one
		close(b.dead)
		close(b.removed)
		return b
	}
	var alive, left sync.WaitGroup
	for _, orphans := range found {
		alive.Add(len(orphans.dirs))
		left.Go(func() {
			defer orphans.parent.Close()
			(&sweeper{}).stopSuspects(orphans.parent, orphans.dirs, alive.Done)
			sweepKept(orphans.kept)
		})
	}
	go func() {
		left.Wait()
		close(b.removed)
	}()
	go func() {
		alive.Wait()
		close(b.dead)
	}()
	return b
}

// suspects are groups that look like orphans, and those of kept processes whose time is over.
type suspects struct {
	parent *cgroup.Group
	dirs   []string
	kept   []*group.KeptGroup
}

// suspectsIn looks for orphans in a directory.
func suspectsIn(parent *cgroup.Group, except string) suspects {
	found := suspects{parent: parent, kept: group.OpenAllKept(parent, isKeptDue)}
	dirs := group.OwnIn(parent)
	seen := orphan.TakeCensus(parent, orphan.NewLocks())
	s := &sweeper{}
	for _, dir := range dirs {
		if dir == except {
			continue
		}
		if isSuspect, _ := s.tend(parent, dir, seen); isSuspect { // false, if it can't be opened
			found.dirs = append(found.dirs, dir)
		}
	}
	return found
}

// A sweeper stops many orphans at a time.
type sweeper struct {
	filter  SweepFilter
	until   time.Time // it waits for other sweeps
	foreign *allowance

	mu   sync.Mutex
	done []Swept
	errs []error
}

// sweepAll stops the orphans of a choice of users.
func (s *sweeper) sweepAll(users group.Users) {
	visit := group.Visit{Users: users, Foreign: s.visitForeign}
	visit.Groups = func(_ string, parent *cgroup.Group, dirs []string) error {
		if s.foreign.isSpent() {
			return nil
		}
		if !s.filter.DryRun { // which keeps no sweep from acting
			s.lockAlone(parent)
			thawGuards(parent)
		}
		s.sweep(parent, dirs, func() {})
		return nil
	}
	if s.filter.Unit == "" {
		visit.Kept = s.visitKept
	}
	if !s.filter.DryRun && s.filter.Unit == "" {
		visit.Session = s.removeSession
	}
	err := visit.All()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.errs = append(s.errs, err)
}

// thawGuards lets the guards run that are in the leaf of a directory or scope: a server may have frozen that.
// They end their servers themselves, if the launchers are dead.
func thawGuards(dir *cgroup.Group) {
	leaf, err := dir.Child(names.GuardsName)
	if err != nil { // there is none
		return
	}
	_ = leaf.ThawAlone() // it was removed
	_ = leaf.Close()     // a directory
}

func (s *sweeper) removeSession(above string, parent *cgroup.Group, dir string) error {
	if s.foreign.isSpent() {
		return nil
	}
	defer s.foreign.look()()
	return backend.RemoveSession(above, parent, dir)
}

// lockAlone waits for another sweep to end, which may be killed before its orphans are. The wait is bounded
// for all directories together. Locks of other users do not count. The caller closes parent, which unlocks
// it.
func (s *sweeper) lockAlone(parent *cgroup.Group) {
	switch {
	case s.foreign != nil: // its user may have locked any directory there
		_ = parent.TryLock(unix.LOCK_EX) // another sweep of root's does no harm
	case time.Now().Before(s.until):
		_, _ = group.LockWithin(parent, os.Getuid(), s.until) // it sweeps without the lock, too
	}
}

// sweep returns when none of these groups is an orphan any more. It calls dead for each that has no process
// left.
func (s *sweeper) sweep(parent *cgroup.Group, dirs []string, dead func()) {
	s.stopSuspects(parent, s.findSuspects(parent, dirs, dead), dead)
}

// stopSuspects is sweep for groups that look like orphans.
func (s *sweeper) stopSuspects(parent *cgroup.Group, suspects []string, dead func()) {
	for begun := false; len(suspects) > 0; begun = true {
		if begun && s.foreign.isSpent() { // after some of them, so that the next sweep finds fewer
			for range suspects {
				dead()
			}
			return
		}
		some := suspects[:min(len(suspects), sweepParallel)]
		suspects = suspects[len(some):]
		s.stopSome(parent, some, dead)
	}
}

// findSuspects returns the groups that look like orphans. It calls dead for each of the others.
func (s *sweeper) findSuspects(parent *cgroup.Group, dirs []string, dead func()) (suspects []string) {
	defer s.foreign.look()()
	seen := orphan.TakeCensus(parent, nil)
	slots := make(chan struct{}, sweepParallel)
	var all sync.WaitGroup
	for _, dir := range dirs {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			if s.foreign.isSpent() {
				dead()
				return
			}
			isSuspect, err := s.tend(parent, dir, seen)
			if !isSuspect {
				s.spare(parent, dir, err)
				dead()
				return
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			suspects = append(suspects, dir)
		})
	}
	all.Wait()
	return suspects
}

// stopSome judges groups by a census of just now, and stops those that are orphans. Only if it has to,
// it reads the locks of the host, once for all of them. It looks again while groups are unclear. One that
// stays so for the time of doubt is an orphan.
func (s *sweeper) stopSome(parent *cgroup.Group, dirs []string, dead func()) {
	var stops sync.WaitGroup
	defer stops.Wait()
	until := time.Now().Add(policy.DoubtMost)
	for wait := pause; len(dirs) > 0; wait *= 4 { // each look may read the locks
		mayWait := time.Now().Before(until)
		dirs = s.stopOrphans(&stops, parent, dirs, mayWait, dead)
		if len(dirs) > 0 {
			time.Sleep(min(wait, time.Until(until)))
		}
	}
}

// stopOrphans starts to stop the groups that are orphans, and returns those that are unclear if it may wait
// for them.
func (s *sweeper) stopOrphans(
	stops *sync.WaitGroup, parent *cgroup.Group, dirs []string, mayWait bool, dead func(),
) (left []string) {
	defer s.foreign.look()()
	seen := orphan.TakeCensus(parent, orphan.NewLocks())
	for _, dir := range dirs {
		g, found, err := s.judge(parent, dir, seen)
		switch {
		case found == unclear && mayWait:
			g.Close()
			left = append(left, dir)
		case found.isSuspect():
			stops.Go(func() {
				defer g.Close()
				dead := sync.OnceFunc(dead)
				defer dead()
				swept, err := s.stopOrphan(parent, g, dead)
				s.record(dir, swept, err)
			})
		default:
			if g != nil {
				g.Close()
			}
			stops.Go(func() {
				defer dead()
				s.spare(parent, dir, err)
			})
		}
	}
	return left
}

// spare records a group that is no orphan, or that cannot be judged. It leaves the group, unless its launcher
// is stopped and was asked to end.
func (s *sweeper) spare(parent *cgroup.Group, dir string, err error) {
	if !s.filter.DryRun {
		stopAsked(parent, dir)
	}
	s.record(dir, Swept{}, err)
}

func (s *sweeper) record(dir string, swept Swept, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.errs = append(s.errs, fmt.Errorf("sweep %s: %w", dir, err))
	} else if swept.ID != "" {
		s.done = append(s.done, swept)
	}
}

// stopOrphan stops an orphan if the filter selects it.
func (s *sweeper) stopOrphan(parent *cgroup.Group, g *group.ControlGroup, dead func()) (Swept, error) {
	g.Backend = backendIn(parent, g)
	of := g.Attributes().Facts()
	if !s.filter.includes(&of) {
		return Swept{}, nil
	}
	over := isOver(g)
	switch {
	case over && s.filter.DryRun:
		return Swept{}, nil
	case s.filter.DryRun:
		return Swept{ID: g.ID, Name: of.Name, Dir: g.Dir}, nil
	}
	var known []systemd.JournalField
	if over { // End records the others
		known = knownOf(g, of)
	}
	swept, err := End(g, Abandoned, SweepGrace, dead)
	if over && swept.Stuck == "" {
		if s.filter.Unit != "" && err == nil {
			logEndWithUnit(g, of, known)
		}
		return Swept{}, err
	}
	return swept, err
}

// backendIn is the backend of a group. It is "" where the hierarchy is not visible.
func backendIn(parent *cgroup.Group, g *group.ControlGroup) names.Backend {
	root, _, err := group.Position(0)
	if err != nil {
		return ""
	}
	defer root.Close()
	return backend.OfGroup(strings.TrimPrefix(parent.Path(), root.Path()), g.Managed)
}

// logEndWithUnit writes the end of a server that systemd has killed with its unit, together with the watcher
// and the guard that would have written it.
func logEndWithUnit(g *group.ControlGroup, of protocol.Facts, known []systemd.JournalField) {
	fields := append(known, journal.Field("cause", string(causes.ClientDied)))
	subjectOf(g, of).Log(journal.Ended, systemd.Notice,
		"ended: its client's unit was killed, with all of mcpscope in it", fields...)
}

// subjectOf is a server that is known by its group alone.
func subjectOf(g *group.ControlGroup, of protocol.Facts) journal.Subject {
	return journal.Subject{ID: g.ID, Name: of.Name, Client: of.Client, Backend: g.Backend, Origin: of.Origin}
}

// knownOf are fields for an event, for a server that another process has watched: as far as the group has
// them, before it is removed. The owner is not the user who sweeps.
func knownOf(g *group.ControlGroup, of protocol.Facts) []systemd.JournalField {
	known := []systemd.JournalField{journal.OwnerField(g.Membership().Owner())}
	if of.Started > 0 {
		lived := max(time.Since(time.Unix(0, of.Started)), 0) // the clock may have been set back
		known = append(known, journal.Field("seconds", fmt.Sprint(lived.Seconds())))
	}
	if used, err := g.Payload.CPU(); err == nil {
		known = append(known, journal.Field("cpu_seconds", fmt.Sprint(used.Seconds())))
	}
	if peak := g.Limits().Figures().MemoryPeak; peak != nil {
		known = append(known, journal.Field("memory_peak_bytes", strconv.FormatUint(*peak, 10)))
	}
	return known
}

// isOver reports whether no process is left of a server, so that only directories are removed. Its guard may
// be about to exit.
func isOver(g *group.ControlGroup) bool {
	if group.Populated(g.Payload) {
		return false
	}
	empty, err := freeze.AwaitEmpty(g.Top(), time.Now().Add(exitWithin))
	if err != nil || !empty {
		return false
	}
	tagged, err := g.Membership().Tagged().Members()
	return err == nil && len(tagged) == 0
}

// sweepTrees stops the servers below guards that are stopped and have no launcher.
func (s *sweeper) sweepTrees(users group.Users) {
	until := time.Now().Add(policy.DoubtMost) // for all of them together
	slots := make(chan struct{}, sweepParallel)
	left := 0
	var all sync.WaitGroup
	backend.EachTree(users, nil, func(t *backend.TreeGuard) {
		if t.IsWatcher { // which stops its servers itself
			t.Close()
			return
		}
		if !s.filter.DryRun && isAskedInVain(t.Config.Facts.Launcher, t.UID) {
			_ = t.RequestStop() // it has ended
		}
		abandoned := t.Abandoned() && s.filter.includes(&t.Config.Facts)
		others := t.UID != os.Getuid() && time.Now().After(until)
		if abandoned && others {
			left++
		}
		if !abandoned && !s.filter.DryRun { // somebody may have stopped its guard
			_ = unix.PidfdSendSignal(t.PIDFD, unix.SIGCONT, nil, 0) // ESRCH: it has exited
		}
		if !abandoned || others {
			t.Close()
			return
		}
		if s.filter.DryRun {
			s.add(treeOf(t))
			t.Close()
			return
		}
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			defer t.Close()
			s.endTree(t)
		})
	})
	all.Wait()
	if left > 0 {
		s.mu.Lock()
		defer s.mu.Unlock()
		servers := text.Counted(left, "server")
		err := errors.New(servers + " of other users left: each takes a second, so sweep again")
		s.errs = append(s.errs, err)
	}
}

// endTree stops a tree. Its guard exits as soon as it is continued.
func (s *sweeper) endTree(t *backend.TreeGuard) {
	below := freeze.Stop{Target: t.Tree(), Request: unix.SIGTERM, Grace: SweepGrace}
	left, err := below.Run()
	_ = unix.PidfdSendSignal(t.PIDFD, unix.SIGCONT, nil, 0) // ESRCH: it has exited
	ended := linux.AwaitWithin(t.PIDFD, unix.POLLIN, policy.DoubtMost)
	swept := treeOf(t)
	switch {
	case err != nil:
		swept.Stuck = err.Error()
	case len(left) > 0:
		swept.Stuck = group.DescribeStuck(left)
	case !ended:
		return // the guard stops the rest
	}
	s.add(swept)
}

func treeOf(t *backend.TreeGuard) Swept {
	return Swept{Name: t.Config.Facts.Name, ID: t.Config.Group.ID, Dir: strconv.Itoa(t.PID)}
}

func (s *sweeper) add(one Swept) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done = append(s.done, one)
}
