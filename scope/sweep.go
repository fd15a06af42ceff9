//go:build linux

package scope

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/freeze"
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
	patient   bool          // see controlGroup.outlives
	hurry     *freeze.Flag  // ends the grace of orphans
}

func (f SweepFilter) uid() int {
	if f.AllUsers {
		return Everyone
	}
	return os.Getuid()
}

// means reads the attributes of an orphan.
func (f SweepFilter) means(g *controlGroup) bool {
	unit, _, _ := g.payload.Attr(attrUnit) // none, if it can't be read
	start, _, _ := g.payload.Attr(attrStart)
	started, _ := time.Parse(time.RFC3339Nano, start) // long ago, if it is none
	return (f.Unit == "" || f.Unit == unit) && time.Since(started) >= f.OlderThan
}

// sweepGrace is what an orphan gets between the asking and the kill.
const (
	sweepGrace    = time.Second
	sweepNow      = 0
	sweepParallel = 16
	sweepEvery    = time.Second
	sweepFinish   = time.Second // what a launcher waits for it at most
)

// Sweep ends the orphans of the calling user, wherever a backend has put them. A group
// whose supervisor or launcher lives, or that is being made, is never touched.
func Sweep(f SweepFilter) ([]Swept, error) {
	var all []Swept
	if f.AllUsers && os.Getuid() != 0 {
		return nil, errOthers
	}
	if f.Unit == "" && f.OlderThan == 0 { // a tree is no orphan as long as it can be found, but may need to be woken
		all = sweepTrees(f.uid())
	}
	f.patient = true
	err := inParents(func(_ location, parent *cgroup.Group) error {
		swept, err := sweep(parent, "", f)
		all = append(all, swept...)
		return err
	})
	return all, err
}

// Orphans are those that Sweep would end.
func Orphans(f SweepFilter) ([]Swept, error) {
	all, err := List(f.uid())
	var orphans []Swept
	for _, s := range all {
		if s.State == Orphaned && f.means(s.group) {
			orphans = append(orphans, Swept{Name: s.Name, ID: s.ID, Dir: s.group.dir})
		}
		s.Close()
	}
	return orphans, err
}

// sweep is what every supervisor does when its own payload runs. finish is for when that
// is gone: it kills the orphans that are being ended, which nobody would end any more.
func (g *controlGroup) sweep() (finish func()) {
	hurry, err := freeze.NewFlag()
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		g.sweepOnce(SweepFilter{hurry: hurry}, over)
	}()
	return func() {
		close(over)
		if err == nil { // otherwise it keeps its graces
			hurry.Raise()
		}
		select {
		case <-done:
		case <-time.After(sweepFinish):
		}
	}
}

// sweepOnce: of many that start together one that sweeps is enough. Who finds that there was
// a sweep a moment ago looks once more when that moment is over, and so sees what was left since.
func (g *controlGroup) sweepOnce(f SweepFilter, over <-chan struct{}) {
	for range 2 {
		wait := sweepEvery - sinceSweep(g.parent)
		if wait <= 0 {
			// a mark is no lock, which a stopped sweeper would keep
			_ = g.parent.SetAttr(attrSwept, strconv.FormatInt(time.Now().UnixNano(), 10)) // at worst two sweep
			_, _ = sweep(g.parent, g.dir, f)                                              // what failed is tried by the next one
			return
		}
		select {
		case <-over:
			return
		case <-time.After(wait):
		}
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

func sweep(parent *cgroup.Group, except string, f SweepFilter) ([]Swept, error) {
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
		if dir == except || !isGroup(dir) || !belongs(parent, dir, f.uid()) {
			continue
		}
		orphan, err := findOrphanWith(parent, dir, f.patient)
		if orphan == nil && err == nil {
			continue
		}
		if err == nil && !f.means(orphan) {
			orphan.close()
			continue
		}
		wg.Go(func() {
			slot <- struct{}{}
			defer func() { <-slot }()
			var s Swept
			if err == nil {
				s, err = orphan.end(sweepGrace, f.hurry)
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
	return orphan.end(grace, nil)
}
