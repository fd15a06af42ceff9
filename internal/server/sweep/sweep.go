// SPDX-License-Identifier: Apache-2.0

//go:build linux

package sweep

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/hierarchy"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// Swept is an orphan that was ended.
type Swept struct {
	Name  string `json:"name"`
	ID    string `json:"id"`
	Dir   string `json:"group"`
	Stuck string `json:"stuck,omitempty"` // who could not be killed, "" if all is gone
}

// SweepFilter says which orphans are meant; the zero value means all.
type SweepFilter struct {
	Unit      string        // the unit that the client was in
	OlderThan time.Duration // since the server's start
	AllUsers  bool          // for root: not its own alone
}

func (f SweepFilter) UID() int {
	if f.AllUsers {
		return hierarchy.Everyone
	}
	return os.Getuid()
}

// Means reads the attributes of an orphan.
func (f SweepFilter) Means(g *group.ControlGroup) bool {
	unit, _, _ := g.Payload.Attr(group.AttrUnit) // none, if it can't be read
	start, _, _ := g.Payload.Attr(group.AttrStart)
	started, _ := time.Parse(time.RFC3339Nano, start)                    // long ago, if it is none
	old := time.Since(started) >= f.OlderThan || time.Until(started) > 0 // no server has started yet that will
	return (f.Unit == "" || f.Unit == unit) && old
}

// sweepGrace is what an orphan gets between the asking and the kill.
const (
	SweepGrace    = time.Second
	SweepNow      = 0
	sweepParallel = 64
	sweepEvery    = time.Second           // in one directory, by servers that start
	sweepFew      = 8                     // directories that are looked at at once, however fresh the mark is
	sweepApart    = 10 * time.Millisecond // for each directory, from one that looks at the mark to the next
	sweepRest     = 20                    // times as long as a sweep has taken, before the next
	sweepRestMost = time.Minute
	sweepLater    = 10 * time.Minute
	sweepAnyway   = 5 * time.Second // after this time a fresh mark is not believed any more
	sweepFinish   = time.Second     // what a launcher waits for it at most
	OthersWithin  = 10 * time.Second
)

// Sweep ends the orphans of the calling user, wherever a backend has put them. A group
// whose supervisor lives, or that is being made, is never touched.
func Sweep(f SweepFilter) ([]Swept, error) {
	if f.AllUsers && os.Getuid() != 0 {
		return nil, group.ErrOthers()
	}
	s := newSweeper(f, nil)
	s.patient = true
	if f.Unit == "" && f.OlderThan == 0 { // a tree is no orphan as long as it can be found, but may need to be woken
		s.add(sweepTrees(f.UID()))
	}
	err := hierarchy.InParents(func(_ hierarchy.Position, parent *cgroup.Group) error { return s.sweep(parent, "") })
	return s.result(err)
}

// BeginSweep is what every supervisor does when its own payload runs, in the directory that its group is in;
// nil is none. finish is for when the payload is gone: it kills the orphans that are being ended, which nobody
// would end any more, and waits for no manager.
func BeginSweep(parent *cgroup.Group, except string) (finish func()) {
	if parent == nil {
		return func() {}
	}
	hurry, done := newHurry(), make(chan struct{})
	go func() {
		defer close(done)
		sweepOnce(parent, except, hurry)
	}()
	return func() {
		hurry.raise()
		select {
		case <-done:
		case <-time.After(sweepFinish):
		}
	}
}

// Hurry ends what a sweep waits for: the graces of orphans, and the managers that are to remove scopes. nil is never raised.
type Hurry struct {
	graces   *freeze.Flag // nil if it can't be made
	managers chan struct{}
}

func newHurry() *Hurry {
	graces, _ := freeze.NewFlag() // without it orphans keep their graces
	return &Hurry{graces: graces, managers: make(chan struct{})}
}

// raise raises it, once.
func (h *Hurry) raise() {
	close(h.managers)
	if h.graces != nil {
		h.graces.Raise()
	}
}

func (h *Hurry) ofGraces() *freeze.Flag {
	if h == nil {
		return nil
	}
	return h.graces
}

func (h *Hurry) ofManagers() <-chan struct{} {
	if h == nil {
		return nil
	}
	return h.managers
}

// sweepOnce: of many servers that start together one that sweeps is enough. The others see by its mark when the next
// one may, and look again then, each at a time of its own: a thousand that looked together would all sweep, and each
// sweep would make the others longer. But the server itself can write the mark, so it puts a sweep off and prevents none.
func sweepOnce(parent *cgroup.Group, except string, hurry *Hurry) {
	n, wait := count(parent), time.Duration(0)
	few := n <= sweepFew
	if !few {
		wait = random(time.Duration(n) * sweepApart)
	}
	for anyway := time.Now().Add(sweepAnyway + seldom(n)); ; {
		if wait > 0 { // otherwise it sweeps, however short its server lived
			select {
			case <-hurry.managers:
				return
			case <-time.After(wait):
			}
		}
		if time.Until(anyway) <= 0 && !few {
			if now := count(parent); now > 2*n {
				n, anyway = now, time.Now().Add(seldom(now)) // it was meant for few
			}
		}
		left := min(untilNext(parent), time.Until(anyway))
		if left <= 0 || few {
			// a mark is no lock, which a stopped sweeper would keep
			markNext(parent, max(sweepEvery, time.Duration(n)*sweepApart))
			begin := time.Now()
			_ = newSweeper(SweepFilter{}, hurry).sweep(parent, except) // what failed is tried by the next one
			markNext(parent, min(max(sweepEvery, sweepRest*time.Since(begin)), sweepRestMost))
			return
		}
		wait = left + random(time.Duration(n)*sweepApart)
	}
}

// count is how many directories there are.
func count(parent *cgroup.Group) int {
	dirs, _ := parent.Children() // none, if they can't be listed
	return len(dirs)
}

// seldom is after what time a server sweeps whatever the mark says: a sweep looks at each of n groups, and all n of them
// are not to take more than some percent of a processor.
func seldom(n int) time.Duration { return random(min(time.Duration(n*n)*time.Millisecond, sweepLater)) }

// random is a part of a time.
func random(most time.Duration) time.Duration {
	var bits [2]byte
	_, _ = unix.Getrandom(bits[:], 0) // without it all are as late as can be
	return most * time.Duration(^binary.NativeEndian.Uint16(bits[:])) / math.MaxUint16
}

// markNext says when the next sweep of this directory may begin.
func markNext(parent *cgroup.Group, in time.Duration) {
	_ = parent.SetAttr(group.AttrSwept, strconv.FormatInt(time.Now().Add(in).UnixNano(), 10)) // at worst two sweep
}

// untilNext is how long the next sweep has to wait, at most sweepLater: a mark of later is somebody else's, or of a clock
// that was set back.
func untilNext(parent *cgroup.Group) time.Duration {
	mark, _, _ := parent.Attr(group.AttrSwept)
	nanos, err := strconv.ParseInt(mark, 10, 64)
	wait := time.Until(time.Unix(0, nanos))
	if err != nil || wait > sweepLater {
		return 0
	}
	return wait
}

// A sweeper ends many orphans at a time. Other users may have made whatever delays it, so all that is
// done about their groups has one bound.
type sweeper struct {
	filter SweepFilter
	late   time.Time // for the groups of other users
	hurry  *Hurry
	// patient: an orphan that another sweeper has is waited for. That one may be killed, or be a server's that ends, and leave
	// an empty directory.
	patient bool

	own    chan struct{}
	others chan struct{}

	mu   sync.Mutex
	done []Swept
	errs []error
}

func newSweeper(f SweepFilter, hurry *Hurry) *sweeper {
	return &sweeper{
		filter: f, late: time.Now().Add(OthersWithin), hurry: hurry,
		own: make(chan struct{}, sweepParallel), others: make(chan struct{}, sweepParallel),
	}
}

// sweep deals with the groups of a directory.
func (s *sweeper) sweep(parent *cgroup.Group, except string) error {
	dirs, err := parent.Children()
	if err != nil {
		return group.IgnoreGone(err)
	}
	var own sync.WaitGroup
	ended := make(chan struct{}, len(dirs)) // a value for each group of another user
	pending := 0
	for _, dir := range dirs {
		uid, err := hierarchy.OwnerOf(parent, dir)
		switch {
		case dir == except || !protocol.IsGroup(dir) || err != nil: // it has just gone
		case uid == os.Getuid():
			if s.worth(parent, dir) {
				own.Go(func() { s.one(parent, dir, s.own) })
			}
		case s.filter.UID() == hierarchy.Everyone:
			pending++
			s.beginOthers(parent, dir, ended)
		}
	}
	own.Wait()
	late := time.NewTimer(time.Until(s.late))
	defer late.Stop()
	for ; pending > 0; pending-- {
		select {
		case <-ended:
		case <-late.C:
			return fmt.Errorf("%d groups in %s belong to other users, and took more than %v: %w", pending, parent, OthersWithin, unix.ETIMEDOUT)
		}
	}
	return nil
}

// worth looks at a group without waiting: as a rule there is nothing to do about it.
func (s *sweeper) worth(parent *cgroup.Group, dir string) bool {
	g, v, err := judge(parent, dir)
	g.Close()
	s.add(nil, group.IgnoreGone(err))
	return v != inUse && err == nil
}

// beginOthers leaves to a goroutine of its own whatever may take long, and what that needs.
func (s *sweeper) beginOthers(parent *cgroup.Group, dir string, done chan<- struct{}) {
	if time.Now().After(s.late) {
		return // which makes sweep say so
	}
	parent, err := parent.Child(".")
	if err != nil {
		s.add(nil, err)
		done <- struct{}{}
		return
	}
	go func() {
		s.one(parent, dir, s.others)
		_ = parent.Close() // a directory
		done <- struct{}{}
	}()
}

// one ends a group if it is an orphan, and is meant.
func (s *sweeper) one(parent *cgroup.Group, dir string, slots chan struct{}) {
	slots <- struct{}{}
	defer func() { <-slots }()
	until := time.Now().Add(protocol.DoubtMost) // its own time: to look at a thousand takes longer
	g, err := FindOrphan(parent, dir, until)
	if g == nil && err == nil && s.patient && awaitSweeper(parent, dir, until) {
		g, err = FindOrphan(parent, dir, until)
	}
	switch {
	case err != nil:
		s.add(nil, fmt.Errorf("sweep %s: %w", dir, err))
	case g == nil:
	case !s.filter.Means(g.ControlGroup):
		g.Close()
	default:
		swept, err := g.End(SweepGrace, s.hurry)
		if err != nil {
			s.add(nil, fmt.Errorf("sweep %s: %w", dir, err))
			return
		}
		s.add([]Swept{swept}, nil)
	}
}

func (s *sweeper) add(done []Swept, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done = append(s.done, done...)
	if err != nil {
		s.errs = append(s.errs, err)
	}
}

func (s *sweeper) result(err error) ([]Swept, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.done), errors.Join(append(s.errs, err)...)
}

// Clean ends one group whose launcher and supervisor have just been killed.
func Clean(parent int, dir string) error {
	g, err := cgroup.FromFD(parent, "groups")
	if err != nil {
		return err
	}
	awaitKill(g, dir)
	orphan, err := FindOrphan(g, dir, time.Now().Add(protocol.DoubtMost))
	if orphan != nil && err == nil {
		_, err = orphan.End(SweepNow, nil)
	}
	return err
}

// awaitKill waits until a kill has reached the supervisor and the launcher. On a busy machine that takes a moment, in which they
// look as if they lived: a stopped supervisor that has got SIGKILL runs again.
func awaitKill(parent *cgroup.Group, dir string) {
	g, v, _ := judge(parent, dir) // FindOrphan says why it can't
	defer g.Close()
	if v == orphaned || g.Top == nil {
		return
	}
	until := time.Now().Add(protocol.SupervisorGoneWithin)
	_, _, _ = g.Top.Await(until, -1, group.IsEmpty) // members that stay are an orphan's
	if g.Payload != nil {
		g.Said(group.AttrLauncher, func(launcher group.Identity) bool { return launcher.AwaitEnd(time.Until(until)) })
	}
}

// SweepOne ends one group if it is an orphan.
func SweepOne(parent *cgroup.Group, dir string, grace time.Duration) (Swept, error) {
	orphan, err := FindOrphan(parent, dir, time.Now())
	if orphan == nil || err != nil {
		return Swept{}, err
	}
	return orphan.End(grace, nil)
}
