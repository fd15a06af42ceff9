// SPDX-License-Identifier: Apache-2.0

//go:build linux

package sweep

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
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

const (
	SweepGrace    = time.Second // for an orphan, between the asking and the kill
	SweepNow      = 0
	sweepParallel = 64
	sweepFinish   = 5 * time.Second // what a server that has ended waits for its sweep at most
	aloneWithin   = time.Second     // for a sweep of the same directories to end, before another one does not wait for it any more
	OthersWithin  = 10 * time.Second
)

// Sweep ends the orphans of the calling user, wherever a backend has put them. A group
// whose guard lives, or that is being made, is never touched.
func Sweep(f SweepFilter) ([]Swept, error) {
	if f.AllUsers && os.Getuid() != 0 {
		return nil, group.ErrOthers()
	}
	s := newSweeper(f)
	if f.Unit == "" && f.OlderThan == 0 { // a tree is no orphan as long as it can be found, but its guard may be stopped
		s.add(sweepTrees(f.UID()))
	}
	until := time.Now().Add(aloneWithin)
	err := hierarchy.InParents(func(_ hierarchy.Position, parent *cgroup.Group) error {
		release, ok := alone(parent)
		for !ok && time.Until(until) > 0 { // what it is ending may be left if it is killed
			time.Sleep(10 * time.Millisecond)
			release, ok = alone(parent)
		}
		defer release()
		return s.sweep(parent, "")
	})
	return s.result(err)
}

// BeginSweep is what every launcher does when its own payload runs, in the directory that its group is in;
// nil is none. finish waits for the orphans that are being stopped. Of servers that start together one sweeps.
func BeginSweep(parent *cgroup.Group, except string) (finish func()) {
	if parent == nil {
		return func() {}
	}
	release, ok := alone(parent)
	if !ok {
		return func() {}
	}
	s := newSweeper(SweepFilter{})
	worth := s.worth(parent, except)
	if len(worth) == 0 { // a server may have used up all processes that a thread would take
		release()
		return func() {}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer release()
		s.own(parent, worth)
	}()
	return func() {
		select {
		case <-done:
		case <-time.After(sweepFinish):
		}
	}
}

// alone takes the lock of a directory of groups, if it is free.
func alone(parent *cgroup.Group) (release func(), ok bool) {
	own, err := parent.Child(".") // the lock is the description's
	if err != nil {
		return func() {}, true
	}
	if err = own.TryLock(unix.LOCK_EX); err == nil {
		return func() { _ = own.Close() }, true
	}
	_ = own.Close() // a directory
	return func() {}, false
}

// A sweeper ends many orphans at a time. Other users may have made whatever delays it, so all that is
// done about their groups has one bound.
type sweeper struct {
	filter SweepFilter
	late   time.Time // for the groups of other users

	slots  chan struct{} // of the user's own groups, and of others'
	others chan struct{}

	mu   sync.Mutex
	done []Swept
	errs []error
}

func newSweeper(f SweepFilter) *sweeper {
	return &sweeper{
		filter: f, late: time.Now().Add(OthersWithin),
		slots: make(chan struct{}, sweepParallel), others: make(chan struct{}, sweepParallel),
	}
}

// worth lists the user's own groups that are not in use, at a first look.
func (s *sweeper) worth(parent *cgroup.Group, except string) (worth []string) {
	dirs, _ := parent.Children() // none, if it has gone
	for _, dir := range dirs {
		if uid, err := hierarchy.OwnerOf(parent, dir); dir == except || !protocol.IsGroup(dir) || err != nil || uid != os.Getuid() {
			continue // it has just gone, or is another user's
		}
		g, ours, err := Open(parent, dir)
		v := inUse
		if ours && err == nil {
			v, err = g.look()
		}
		g.Close()
		if v != inUse && err == nil {
			worth = append(worth, dir)
		}
	}
	return worth
}

// own deals with these groups of the user.
func (s *sweeper) own(parent *cgroup.Group, dirs []string) {
	var all sync.WaitGroup
	for _, dir := range dirs {
		all.Go(func() { s.one(parent, dir, s.slots) })
	}
	all.Wait()
}

// sweep deals with the groups of a directory.
func (s *sweeper) sweep(parent *cgroup.Group, except string) error {
	dirs, err := parent.Children()
	if err != nil {
		return group.IgnoreGone(err)
	}
	held, err := parent.Child(".") // for what lasts longer than this call
	if err != nil {
		return group.IgnoreGone(err)
	}
	var own []string
	var others sync.WaitGroup
	for _, dir := range dirs {
		uid, err := hierarchy.OwnerOf(parent, dir)
		switch {
		case dir == except || !protocol.IsGroup(dir) || err != nil: // it has just gone
		case uid == os.Getuid():
			own = append(own, dir)
		case s.filter.UID() == hierarchy.Everyone:
			others.Go(func() { s.one(held, dir, s.others) })
		}
	}
	s.own(parent, own)
	ended := make(chan struct{})
	go func() {
		others.Wait()
		_ = held.Close() // a directory
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-time.After(time.Until(s.late)):
		return fmt.Errorf("groups in %s belong to other users, and took more than %v: %w", parent, OthersWithin, unix.ETIMEDOUT)
	}
}

// one ends a group if it is an orphan, and is meant.
func (s *sweeper) one(parent *cgroup.Group, dir string, slots chan struct{}) {
	slots <- struct{}{}
	defer func() { <-slots }()
	g, err := FindOrphan(parent, dir, time.Now().Add(protocol.DoubtMost)) // its own time: to look at a thousand takes longer
	switch {
	case err != nil:
		s.add(nil, fmt.Errorf("sweep %s: %w", dir, err))
	case g == nil:
	case !s.filter.Means(g.ControlGroup):
		g.Close()
	default:
		swept, err := g.End(SweepGrace)
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

// SweepOne ends one group if it is an orphan.
func SweepOne(parent *cgroup.Group, dir string, grace time.Duration) (Swept, error) {
	orphan, err := FindOrphan(parent, dir, time.Now())
	if orphan == nil || err != nil {
		return Swept{}, err
	}
	return orphan.End(grace)
}
