// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package sweep finds orphans and stops them. It never touches a group that is in use.
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

// Swept is an orphan that was stopped.
type Swept struct {
	Name  string `json:"name"`
	ID    string `json:"id"`
	Dir   string `json:"group"`
	Stuck string `json:"stuck,omitempty"` // members that SIGKILL did not end
}

// SweepFilter selects orphans; the zero value selects all.
type SweepFilter struct {
	Unit      string        // the unit that the client was in
	OlderThan time.Duration // since the server's start
	AllUsers  bool          // root only
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
	started, _ := time.Parse(time.RFC3339Nano, start) // without it, long ago
	old := time.Since(started) >= f.OlderThan || time.Until(started) > 0
	return (f.Unit == "" || f.Unit == unit) && old
}

const (
	SweepGrace    = time.Second // from SIGTERM to SIGKILL
	SweepNow      = 0
	sweepParallel = 64
	sweepFinish   = 5 * time.Second // the longest wait of a launcher for its own sweep
	aloneWithin   = time.Second     // the longest wait for another sweep
	OthersWithin  = 10 * time.Second
)

// Sweep stops the orphans of the calling user. It never touches a group whose guard lives, or that is being
// made.
func Sweep(f SweepFilter) ([]Swept, error) {
	if f.AllUsers && os.Getuid() != 0 {
		return nil, group.ErrOthers()
	}
	s := newSweeper(f)
	if f.Unit == "" && f.OlderThan == 0 {
		s.add(sweepTrees(f.UID()))
	}
	until := time.Now().Add(aloneWithin)
	err := hierarchy.InParents(func(_ hierarchy.Position, parent *cgroup.Group) error {
		release, ok := alone(parent)
		for !ok && time.Until(until) > 0 { // another sweep may be killed before its orphans are
			time.Sleep(10 * time.Millisecond)
			release, ok = alone(parent)
		}
		defer release()
		return s.sweep(parent, "")
	})
	return s.result(err)
}

// BeginSweep is the sweep of a launcher, in the directory of its group. finish waits for the orphans that
// are being stopped. Of servers that start together one sweeps.
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
	if len(worth) == 0 { // a server may have used up all process numbers, and a thread needs one
		release()
		return func() {}
	}
	own, err := parent.Child(".") // the caller may close its own before all orphans are stopped
	if err != nil {
		release()
		return func() {}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer release()
		defer own.Close()
		s.own(own, worth)
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

// A sweeper stops many orphans at a time. Other users can delay it, so all their groups together have one
// bound.
type sweeper struct {
	filter SweepFilter
	late   time.Time // for the groups of other users

	slots  chan struct{}
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

// worth lists the groups of the user that are not in use, at a first look.
func (s *sweeper) worth(parent *cgroup.Group, except string) (worth []string) {
	dirs, _ := parent.Children() // none, if it was removed
	for _, dir := range dirs {
		uid, err := hierarchy.OwnerOf(parent, dir)
		if dir == except || !protocol.IsGroup(dir) || err != nil || uid != os.Getuid() {
			continue
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

func (s *sweeper) own(parent *cgroup.Group, dirs []string) {
	var all sync.WaitGroup
	for _, dir := range dirs {
		all.Go(func() { s.one(parent, dir, s.slots) })
	}
	all.Wait()
}

func (s *sweeper) sweep(parent *cgroup.Group, except string) error {
	dirs, err := parent.Children()
	if err != nil {
		return group.IgnoreGone(err)
	}
	held, err := parent.Child(".") // for goroutines that outlast this call
	if err != nil {
		return group.IgnoreGone(err)
	}
	var own []string
	var others sync.WaitGroup
	for _, dir := range dirs {
		uid, err := hierarchy.OwnerOf(parent, dir)
		switch {
		case dir == except || !protocol.IsGroup(dir) || err != nil:
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
		return fmt.Errorf("groups in %s belong to other users, and took more than %v: %w",
			parent, OthersWithin, unix.ETIMEDOUT)
	}
}

// one stops a group if it is an orphan and the filter selects it.
func (s *sweeper) one(parent *cgroup.Group, dir string, slots chan struct{}) {
	slots <- struct{}{}
	defer func() { <-slots }()
	g, err := FindOrphan(parent, dir, time.Now().Add(protocol.DoubtMost))
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

// SweepOne stops one group if it is an orphan.
func SweepOne(parent *cgroup.Group, dir string, grace time.Duration) (Swept, error) {
	orphan, err := FindOrphan(parent, dir, time.Now())
	if orphan == nil || err != nil {
		return Swept{}, err
	}
	return orphan.End(grace)
}
