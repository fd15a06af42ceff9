// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"fmt"
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
)

// pidfdHangUp tells a zombie from one who has been waited for.
var pidfdHangUp = bed.Feature{Name: "POLLHUP of a pidfd", Since: [2]int{6, 9}, Missing: reapedShows}

// traces are how many runs are watched to find the points: not every run meets all.
const traces = 3

// rounds is how often the same call on the same thing is a point. What asks the kernel again and
// again, until everybody is found stopped or dead, does so some thousand times.
const rounds = 5

// workers is how many runs go on at a time; they wait more than they work.
const workers = 6

// TestFaults holds the promises at every system call. Unless all is asked for, every second point of
// the backend cgroup is tried, with one fault, and neighbouring ones with different ones.
func TestFaults(t *testing.T) {
	t.Parallel()
	bed.Require(t, pidfdHangUp)
	backends := []*backend{&cgroup}
	if escape.Full() {
		backends = append(backends, &tree)
	}
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			b.everywhere(t, b.name, workers, isCall)
		})
	}
}

// everywhere tries the points of a kind, on some lanes at a time.
func (b *backend) everywhere(t *testing.T, title string, workers int, kind func(visit) bool) {
	all := b.lanes(t, workers)
	points, repeats := b.trace(t, all, kind)
	counts := newTable(title, len(points), repeats)
	t.Run("at", func(t *testing.T) {
		for _, s := range plan(points, b.effort()) {
			t.Run(s.name(), func(t *testing.T) {
				t.Parallel()
				l := <-all
				defer func() { all <- l }()
				l.shoot(t, s, counts)
			})
		}
	})
	publish(t, counts.String())
}

// trace watches some runs, and returns the points in the order in which they were met, and
// how many are no more than repetitions of one.
func (b *backend) trace(t *testing.T, all lanes, kind func(visit) bool) (points []visit, repeats int) {
	t.Helper()
	known := map[point]bool{}
	for range traces {
		l := <-all
		t.Run("trace", func(t *testing.T) {
			r := l.start(t, nil)
			r.live()
			if v := r.judge(); v != usual {
				t.Fatalf("broken without a fault: %s\n\t%s", v, r.explain())
			}
			for _, v := range r.watcher.visits {
				switch {
				case known[v.point] || !kind(v):
				case v.n > rounds:
					repeats++
				default:
					points = append(points, v)
				}
				known[v.point] = true
			}
		})
		all <- l
	}
	if t.Failed() || len(points) == 0 {
		t.Fatalf("%d points were found", len(points))
	}
	return points, repeats
}

// effort is how many faults are tried.
type effort int

const (
	some  effort = iota // one at every second point
	each                // at every point one
	whole               // at every point all
)

// effort: a manager's scopes take time, and most of what is done with them, or with a tree, is done with any
// group; and most of what a bus does to a server that runs it does to one that waits. MCPSCOPE_FAULTS=all tries all there, too.
func (b *backend) effort() effort {
	switch {
	case !escape.Full():
		return some
	case (b.managed && b.way == nil || b.early || b == &tree) && os.Getenv("MCPSCOPE_FAULTS") != "all":
		return each
	}
	return whole
}

// plan is what is tried where.
func plan(points []visit, e effort) []shot {
	var all []shot
	for i, v := range points {
		for j, f := range v.faults() {
			if e == some && i%2 == 1 || e != whole && j != i%len(v.faults()) {
				continue
			}
			all = append(all, shot{v, f})
		}
	}
	return all
}

func (l *lane) shoot(t *testing.T, s shot, counts *table) {
	t.Helper()
	r := l.start(t, &s)
	r.live()
	v := r.judge()
	counts.put(s.fault.String(), s.point.String(), v)
	if v == broken {
		t.Errorf("broken: %s: %s", s, r.explain())
		return
	}
	t.Logf("%s: %s. %s", s, v, escape.Contents(r.stderr))
}

func publish(t *testing.T, text string) {
	t.Helper()
	fmt.Print(text)
	if err := escape.AppendTable(text); err != nil {
		t.Error(err)
	}
}

// reapedShows looks at a child before and after it is waited for.
func reapedShows() error {
	pid, err := syscall.ForkExec("/bin/true", []string{"true"}, &syscall.ProcAttr{})
	if err != nil {
		return err
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err == nil {
		defer unix.Close(fd)
		_, err = unix.Wait4(pid, nil, 0, nil)
	}
	if err == nil && !escape.PollFor(0, unix.PollFd{Fd: int32(fd)}) {
		err = fmt.Errorf("poll does not tell that a process was waited for")
	}
	return err
}
